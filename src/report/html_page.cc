// SPDX-License-Identifier: Apache-2.0
#include "html_page.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "file.h"

namespace spillway::report {

namespace {

constexpr const char* kStyle = R"(
:root{--ground:#f5f6f8;--card:#fff;--ink:#20252a;--soft:#5b636b;--rule:#dde2e7;--accent:#0b5fa5}
@media (prefers-color-scheme:dark){:root{--ground:#0f1114;--card:#16191d;--ink:#e4e7ea;--soft:#a5adb5;--rule:#2c3238;--accent:#6cb4f5}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
main{max-width:860px;margin:0 auto;padding:32px 20px 48px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 8px}
h2{font-size:1.2rem;margin:36px 0 10px}
.lead{color:var(--soft);margin:0 0 20px;max-width:68ch}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(180px,1fr));gap:12px;margin:20px 0 28px;padding:0;list-style:none}
.figures li{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:14px 16px}
.figures b{display:block;font-size:1.6rem;line-height:1.2;color:var(--accent);font-variant-numeric:tabular-nums}
.figures small{display:block;color:var(--soft)}
figure{margin:18px 0}
.spw-chart{display:block;width:100%;height:auto;border:1px solid var(--rule);border-radius:8px}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:8px}
figcaption{color:var(--soft);font-size:.9rem;margin:0 0 6px}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:6px 12px;text-align:left;white-space:nowrap;border-bottom:1px solid var(--rule)}
tbody tr:last-child td{border-bottom:0}
th{font-weight:600}
.num{text-align:right}
button{font:inherit;color:#fff;background:#0b5fa5;border:0;border-radius:6px;padding:8px 14px;cursor:pointer}
footer{margin-top:36px;color:var(--soft);font-size:.85rem}
details pre{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:12px;font-size:.8rem}
@media print{button{display:none}body{background:none}}
)";

constexpr const char* kScript = R"(
document.getElementById('download').addEventListener('click',function(e){
  var text=document.getElementById('document').textContent.trim()+'\n';
  var link=document.createElement('a');
  link.href=URL.createObjectURL(new Blob([text],{type:'application/json'}));
  link.download=e.currentTarget.dataset.name;
  link.click();
  setTimeout(function(){URL.revokeObjectURL(link.href)},1000);
});
)";

// JSON that may stand inside <script>: "<" only occurs within its strings, where an escape means the same.
std::string EscapeScript(const std::string& json) {
  std::string out;
  for (char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

HtmlPage::HtmlPage(std::string title, std::string lead) : title_(std::move(title)), lead_(std::move(lead)) {}

void HtmlPage::AddFigure(std::string value, std::string label, std::string note) {
  figures_ += fmt::format("<li><b>{}</b>{}{}</li>\n", EscapeHtml(value), EscapeHtml(label),
                          note.empty() ? "" : "<small>" + EscapeHtml(note) + "</small>");
}

void HtmlPage::AddHeading(const std::string& text) { body_ += "<h2>" + EscapeHtml(text) + "</h2>\n"; }
void HtmlPage::AddText(const std::string& text) { body_ += "<p>" + EscapeHtml(text) + "</p>\n"; }
void HtmlPage::AddChart(const Chart& chart) { body_ += "<figure>\n" + RenderSvg(chart) + "</figure>\n"; }

void HtmlPage::AddTimeline(const Timeline& timeline) {
  body_ += "<figure>\n" + RenderSvg(timeline) + "</figure>\n";
}

void HtmlPage::AddTable(const std::string& caption, const Table& table) {
  body_ += fmt::format("<figure>{}<div class=\"scroll\">\n{}</div></figure>\n",
                       caption.empty() ? "" : "<figcaption>" + EscapeHtml(caption) + "</figcaption>",
                       table.Html());
}

void HtmlPage::Embed(const Document& document, std::string file_name) {
  json_ = document.Dump();
  file_name_ = std::move(file_name);
  const nlohmann::ordered_json json = document.Json();
  const auto& machine = json["machine"];
  const int rounds = json["rounds"].get<int>();
  foot_ = fmt::format("Measured on {}, {} core{}, {} GiB, Linux {}. Commit {}, {} round{}.",
                      machine["cpu"].get<std::string>(), machine["cores"].get<int>(),
                      machine["cores"].get<int>() == 1 ? "" : "s", machine["memory_gib"].get<double>(),
                      machine["kernel"].get<std::string>(), json["commit"].get<std::string>(), rounds,
                      rounds == 1 ? "" : "s");
}

std::string HtmlPage::Render() const {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src "
      "'unsafe-inline'\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n",
      EscapeHtml(title_), kStyle, EscapeHtml(title_));
  if (!lead_.empty()) out += "<p class=\"lead\">" + EscapeHtml(lead_) + "</p>\n";
  if (!figures_.empty()) out += "<ul class=\"figures\">\n" + figures_ + "</ul>\n";
  out += body_;
  if (!json_.empty()) {
    out += fmt::format(
        "<h2>Data</h2>\n<p><button id=\"download\" data-name=\"{0}\">Download {0}</button></p>\n"
        "<details><summary>Show it here</summary><pre>{1}</pre></details>\n"
        "<script type=\"application/json\" id=\"document\">\n{2}</script>\n<script>{3}</script>\n"
        "<footer>{4}</footer>\n",
        EscapeHtml(file_name_), EscapeHtml(json_), EscapeScript(json_), kScript, EscapeHtml(foot_));
  }
  return out + "</main>\n</body>\n</html>\n";
}

Result<void> HtmlPage::Write(const std::string& path) const { return WriteFile(path, Render()); }

}  // namespace spillway::report
