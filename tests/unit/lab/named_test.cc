// SPDX-License-Identifier: Apache-2.0
#include "lab/experiment/named.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace spillway::lab {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class NamedExperiment : public testing::Test {
 protected:
  NamedExperiment()
      : folder_(testing::TempDir() + "named/" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const char* stem : {"alone", "emulated", "fig5-dns", "fig5-knn", "fig5-dns-emulated"}) Touch(stem);
  }
  void Touch(const std::string& stem) { std::ofstream(Path(stem)) << "\n"; }
  std::string Path(const std::string& stem) { return folder_ + "/" + stem + ".yaml"; }
  std::string Refusal(const Wanted& wanted) {
    const auto found = FindExperiment(wanted, folder_);
    return found ? "found" : found.error().message;
  }

  std::string folder_;
};

TEST_F(NamedExperiment, HasAllItsAppsOrThoseAskedForInThatOrder) {
  EXPECT_THAT(*FindExperiment({"fig5", {}, false}, folder_),
              ElementsAre(NamedFile{"dns", Path("fig5-dns")}, NamedFile{"knn", Path("fig5-knn")}));
  EXPECT_THAT(*FindExperiment({"fig5", {"knn", "dns", "knn"}, false}, folder_),
              ElementsAre(NamedFile{"knn", Path("fig5-knn")}, NamedFile{"dns", Path("fig5-dns")}));
}

TEST_F(NamedExperiment, StandsAloneWhereItHasNoApps) {
  EXPECT_THAT(*FindExperiment({"alone", {}, false}, folder_), ElementsAre(NamedFile{"", Path("alone")}));
  EXPECT_THAT(*FindExperiment({"emulated", {}, false}, folder_),
              ElementsAre(NamedFile{"", Path("emulated")}));
}

TEST_F(NamedExperiment, EmulatedChoosesTheEmulatedFiles) {
  EXPECT_THAT(*FindExperiment({"fig5", {}, true}, folder_),
              ElementsAre(NamedFile{"dns", Path("fig5-dns-emulated")}));
  EXPECT_THAT(Refusal({"fig5", {"knn"}, true}), HasSubstr("fig5 has no app knn; it has dns"));
  EXPECT_THAT(Refusal({"alone", {}, true}), HasSubstr("neither a file nor an emulated experiment"));
}

TEST_F(NamedExperiment, AnUnknownNameIsToldWhatThereIs) {
  EXPECT_THAT(Refusal({"fig6", {}, false}), HasSubstr("which has alone, emulated, fig5 (dns, knn)"));
  EXPECT_EQ(FindExperiment({"fig6", {}, false}, folder_).error().code, ErrorCode::kBadInput);
  EXPECT_THAT(FindExperiment({"fig6", {}, false}, folder_ + "/gone").error().message, HasSubstr("has none"));
}

TEST_F(NamedExperiment, AnUnknownAppIsToldWhatThereIs) {
  EXPECT_THAT(Refusal({"fig5", {"dns", "nginx"}, false}),
              HasSubstr("--apps: fig5 has no app nginx; it has dns, knn"));
  EXPECT_THAT(Refusal({"alone", {"dns"}, false}), HasSubstr("alone has no app dns; it has none"));
}

TEST_F(NamedExperiment, APathIsTakenAsItIsAndHasNoApps) {
  EXPECT_THAT(*FindExperiment({Path("fig5-knn"), {}, false}, "/nowhere"),
              ElementsAre(NamedFile{"", Path("fig5-knn")}));
  EXPECT_THAT(*FindExperiment({"gone.yaml", {}, false}, folder_), ElementsAre(NamedFile{"", "gone.yaml"}))
      << "that it is not there is told by who reads it";
  EXPECT_THAT(Refusal({Path("alone"), {"dns"}, false}), HasSubstr("not with a path"));
}

TEST_F(NamedExperiment, TheFolderIsTheInstalledOneOrTheSources) {
  const std::string installed = folder_ + "/usr/bin", built = folder_ + "/src/build/release/bin";
  for (const std::string& made :
       {installed, folder_ + "/usr/share/spillway/lab", built, folder_ + "/src/examples/lab"})
    fs::create_directories(made);
  EXPECT_EQ(LabFolder(installed), folder_ + "/usr/share/spillway/lab");
  EXPECT_EQ(LabFolder(built), folder_ + "/src/examples/lab");
}

TEST_F(NamedExperiment, ABedIsFoundInItsFolderThenAmongTheOthers) {
  fs::create_directories(folder_ + "/beds");
  Touch("beds/quota-1-5");
  Touch("beds/alone");
  EXPECT_EQ(*FindBed("quota-1-5", folder_), Path("beds/quota-1-5"));
  EXPECT_EQ(*FindBed("alone", folder_), Path("beds/alone"));
  EXPECT_EQ(*FindBed("fig5-dns", folder_), Path("fig5-dns"));
  EXPECT_EQ(*FindBed("some/where.yaml", folder_), "some/where.yaml");
  EXPECT_THAT(FindBed("gone", folder_).error().message, HasSubstr("which has alone, quota-1-5"));
}

TEST(LabExamples, HaveThePapersFigures) {
  for (bool emulated : {false, true}) {
    for (const char* name : {"fig4a", "fig4b", "fig5"}) {
      const auto found = FindExperiment({name, {}, emulated}, SPILLWAY_LAB_EXAMPLES);
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_EQ(found->size(), std::string(name) == "fig5" ? 3u : 1u) << name;
    }
  }
}

}  // namespace
}  // namespace spillway::lab
