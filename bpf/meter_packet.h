/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Frame -> what the request meter needs of it: a request, an answer, or a refusal. One parser under tc and
 * under AF_PACKET. Loads are aligned when the frame starts 2 bytes past a 4-byte boundary, as skbs and our
 * buffers do.
 */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "bpf/meter.h"
#include "core/byte_order.h"

enum spw_meter_direction { SPW_METER_INGRESS = 0, SPW_METER_EGRESS };

enum spw_meter_parsed {
	SPW_METER_OURS = 0,
	SPW_METER_FOREIGN,   /* no packet of a service */
	SPW_METER_SHORT,     /* the frame goes on beyond `end`: bring more and parse again */
	SPW_METER_MALFORMED, /* addressed to a service, and not what it says it is */
};

struct spw_meter_packet {
	__u64 hash;	    /* of client, service port, protocol and, for DNS, the message id */
	__u8 tcp;	    /* 1: TCP, 0: UDP */
	__u8 syn, fin, rst; /* TCP; syn: without ACK */
	__u8 accepts;	    /* TCP, going out: SYN and ACK */
	__u8 refuses;	    /* going out: no such port, for the request or connection named by hash */
	__u8 was_closed;    /* TCP, going out: a reset by which the kernel says that there is no connection */
	__u8 rcode;	    /* DNS: response code */
	__u32 payload_bytes; /* TCP */
	__u32 payload_at;    /* TCP; in the frame */
};

/* The first bytes of an HTTP/1 answer, "HTTP/1.1 503": what tells a server error. */
struct spw_meter_status_line {
	__u64 version;
	__u32 status;
};
#define SPW_METER_STATUS_LINE 12 /* bytes of it in the packet */

/* The header of a TLS record. */
struct spw_meter_record {
	__u8 type;
	__u8 version[2];
	__u8 length[2];
};
#define SPW_METER_RECORD_HEADER 5
#define SPW_METER_RECORD_ALERT 21
#define SPW_METER_RECORD_DATA 23
#define SPW_METER_ALERT_MAX 85 /* a record with an alert, under whatever cipher */

#define SPW_METER_DNS_HEADER 12
#define SPW_METER_DNS_RESPONSE 0x80 /* QR, first byte of the flags */
#define SPW_METER_TCP_FIN 0x01
#define SPW_METER_TCP_SYN 0x02
#define SPW_METER_TCP_RST 0x04
#define SPW_METER_TCP_ACK 0x10
#define SPW_METER_FRAGMENT_OFFSET 0x1fff
#define SPW_METER_ICMP_HEADER 8
#define SPW_METER_ICMP_UNREACHABLE 3
#define SPW_METER_ICMP_NO_PORT 3
#define SPW_METER_ICMPV6_UNREACHABLE 1
#define SPW_METER_ICMPV6_NO_PORT 4
#define SPW_METER_V6_OFFSET 0xfff8
#define SPW_METER_NEED(pointer, bytes)                                                                       \
	do {                                                                                                 \
		if ((pointer) + (bytes) > end)                                                               \
			return frame_bytes > (__u32)(end - data) ? SPW_METER_SHORT : SPW_METER_FOREIGN;      \
	} while (0)
/* The same once we know that the packet is a service's. */
#define SPW_METER_NEED_OURS(pointer, bytes)                                                                  \
	do {                                                                                                 \
		if ((pointer) + (bytes) > end)                                                               \
			return frame_bytes > (__u32)(end - data) ? SPW_METER_SHORT : SPW_METER_MALFORMED;    \
	} while (0)

SPW_INLINE __u32 spw_meter_is_dns_error(const struct spw_meter_config *config,
					const struct spw_meter_packet *packet)
{
	return config->errors >> (packet->rcode & 15) & 1;
}

/* Whether to look at the beginning of an answer over TCP. */
SPW_INLINE int spw_meter_may_be_http(const struct spw_meter_config *config,
				     const struct spw_meter_packet *packet)
{
	return (config->errors & SPW_METER_HTTP_5XX) && packet->payload_bytes >= SPW_METER_STATUS_LINE;
}

SPW_INLINE __u32 spw_meter_is_http_error(const struct spw_meter_status_line *line)
{
	__u32 status = spw_be32(line->status);

	/* "HTTP/1.", any minor version; " 5..". Method (501) and version (505) are as the client chose them.
	 */
	return spw_be64(line->version) >> 8 == 0x485454502f312eULL && status >> 16 == 0x2035 &&
	       status != 0x20353031 && status != 0x20353035;
}

/* Whether to look at the beginning of what a client sends over TCP: it may be an alert and nothing else. */
SPW_INLINE int spw_meter_may_be_alert(const struct spw_meter_packet *packet)
{
	return packet->tcp && packet->payload_bytes > SPW_METER_RECORD_HEADER &&
	       packet->payload_bytes <= SPW_METER_ALERT_MAX;
}

/* A TLS alert, by which clients end a connection (RFC 8446, 6.1): no request, nobody answers it. Since
 * TLS 1.3 it passes for data, two bytes of it beside type and tag, of which no request consists. */
SPW_INLINE int spw_meter_is_alert(const struct spw_meter_record *record, __u32 payload_bytes)
{
	__u32 length = (__u32)record->length[0] << 8 | record->length[1];

	if (record->version[0] != 3 || length + SPW_METER_RECORD_HEADER != payload_bytes)
		return 0;
	return record->type == SPW_METER_RECORD_ALERT ||
	       (record->type == SPW_METER_RECORD_DATA && length == 2 + 1 + 16);
}

/* client: 1 word (IPv4) or 4. id: what tells requests of one client port apart, or 0. */
SPW_INLINE __u64 spw_meter_key(const struct spw_meter_config *config, __u8 family, const __u32 *client,
			       __u32 id, __u32 ports, __u8 protocol)
{
	__u32 extra[4] = {id, 0, 0, 0};

	return family == 4 ? spw_hash_v4(&config->seed, client[0], id, ports, protocol)
			   : spw_hash_v6(&config->seed, client, extra, ports, protocol);
}

SPW_INLINE int spw_meter_is_service(const struct spw_meter_config *config, __u32 protocol, __u16 port)
{
	return config->ports[protocol & 1][port >> 3] >> (port & 7) & 1;
}

/*
 * An ICMP message that goes out; `at`: behind the IP header. Ours if it says that no one listens at a
 * service's port. It quotes the packet that came in: its source is the client.
 */
SPW_INLINE enum spw_meter_parsed spw_meter_parse_refusal(const struct spw_meter_config *config, __u8 family,
							 const __u8 *at, const __u8 *data, const __u8 *end,
							 __u32 frame_bytes, struct spw_meter_packet *packet)
{
	__u32 client[4] = {0, 0, 0, 0}, id = 0;
	const __u32 *addr;
	__u16 port, service;
	__u8 protocol;

	SPW_METER_NEED(at, SPW_METER_ICMP_HEADER);
	if (family == 4) {
		if (at[0] != SPW_METER_ICMP_UNREACHABLE || at[1] != SPW_METER_ICMP_NO_PORT)
			return SPW_METER_FOREIGN;
		at += SPW_METER_ICMP_HEADER;
		SPW_METER_NEED(at, sizeof(struct iphdr));
		if (*at != 0x45)
			return SPW_METER_FOREIGN;
		protocol = ((const struct iphdr *)at)->protocol;
		client[0] = *(const __u32 *)(at + 12);
		at += sizeof(struct iphdr);
	} else {
		if (at[0] != SPW_METER_ICMPV6_UNREACHABLE || at[1] != SPW_METER_ICMPV6_NO_PORT)
			return SPW_METER_FOREIGN;
		at += SPW_METER_ICMP_HEADER;
		SPW_METER_NEED(at, sizeof(struct ipv6hdr));
		protocol = ((const struct ipv6hdr *)at)->nexthdr;
		addr = (const __u32 *)(at + 8);
		client[0] = addr[0];
		client[1] = addr[1];
		client[2] = addr[2];
		client[3] = addr[3];
		at += sizeof(struct ipv6hdr);
	}
	if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP)
		return SPW_METER_FOREIGN;
	packet->tcp = protocol == IPPROTO_TCP;
	SPW_METER_NEED(at, 8);
	port = ((const __u16 *)at)[0];
	service = ((const __u16 *)at)[1];
	if (!spw_meter_is_service(config, packet->tcp, service))
		return SPW_METER_FOREIGN;
	if (!packet->tcp && config->dns) {
		SPW_METER_NEED(at, sizeof(struct udphdr) + 2);
		id = *(const __u16 *)(at + 8) | 0x10000;
	}
	packet->refuses = 1;
	packet->hash =
	    spw_meter_key(config, family, client, id, (__u32)port | (__u32)service << 16, protocol);
	return SPW_METER_OURS;
}

/* frame_bytes: length of the whole frame, of which [data, end) is available. */
SPW_INLINE enum spw_meter_parsed spw_meter_parse(const struct spw_meter_config *config, const __u8 *data,
						 const __u8 *end, __u32 frame_bytes,
						 enum spw_meter_direction direction,
						 struct spw_meter_packet *packet)
{
	const __u8 *at = data;
	const __u32 *addr;
	__u32 ip_end, words[4] = {0, 0, 0, 0}, id = 0, ports, offset = ETH_HLEN;
	__u16 ethertype, client, service;
	__u8 protocol, family;

	SPW_METER_NEED(at, ETH_HLEN);
	ethertype = ((const struct ethhdr *)at)->h_proto;
	at += ETH_HLEN;
#pragma GCC unroll 2
	for (int tags = 0; tags < 2; tags++) {
		if (ethertype != spw_be16(ETH_P_8021Q) && ethertype != spw_be16(ETH_P_8021AD))
			break;
		SPW_METER_NEED(at, 4);
		ethertype = ((const __u16 *)at)[1];
		at += 4;
		offset += 4;
	}

	if (ethertype == spw_be16(ETH_P_IP)) {
		const struct iphdr *ip = (const struct iphdr *)at;
		__u32 header;

		SPW_METER_NEED(at, sizeof(*ip));
		header = (*at & 15) * 4;
		protocol = ip->protocol;
		if (*at >> 4 != 4 || header < sizeof(*ip) ||
		    (ip->frag_off & spw_be16(SPW_METER_FRAGMENT_OFFSET)))
			return SPW_METER_FOREIGN;
		/* 0: a merged packet beyond 64 KiB, whose length only the frame knows. */
		ip_end = ip->tot_len ? offset + spw_be16(ip->tot_len) : frame_bytes;
		addr = direction == SPW_METER_INGRESS ? (const __u32 *)(at + 12) : (const __u32 *)(at + 16);
		words[0] = *addr;
		family = 4;
		at += header;
		offset += header;
	} else if (ethertype == spw_be16(ETH_P_IPV6)) {
		const struct ipv6hdr *ip = (const struct ipv6hdr *)at;

		SPW_METER_NEED(at, sizeof(*ip));
		protocol = ip->nexthdr;
		offset += sizeof(*ip);
		ip_end = ip->payload_len ? offset + spw_be16(ip->payload_len) : frame_bytes;
		addr = direction == SPW_METER_INGRESS ? (const __u32 *)(at + 8) : (const __u32 *)(at + 24);
		words[0] = addr[0];
		words[1] = addr[1];
		words[2] = addr[2];
		words[3] = addr[3];
		family = 6;
		at += sizeof(*ip);
		if (protocol == IPPROTO_FRAGMENT) { /* a large answer's first fragment has the ports */
			SPW_METER_NEED(at, 8);
			if (((const __u16 *)at)[1] & spw_be16(SPW_METER_V6_OFFSET))
				return SPW_METER_FOREIGN;
			protocol = *at;
			at += 8;
			offset += 8;
		}
	} else {
		return SPW_METER_FOREIGN;
	}
	if (direction == SPW_METER_EGRESS &&
	    (family == 4 ? protocol == IPPROTO_ICMP : protocol == IPPROTO_ICMPV6))
		return spw_meter_parse_refusal(config, family, at, data, end, frame_bytes, packet);
	if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP)
		return SPW_METER_FOREIGN;
	packet->tcp = protocol == IPPROTO_TCP;

	SPW_METER_NEED(at, 4);
	client = ((const __u16 *)at)[direction == SPW_METER_INGRESS ? 0 : 1];
	service = ((const __u16 *)at)[direction == SPW_METER_INGRESS ? 1 : 0];
	if (!spw_meter_is_service(config, packet->tcp, service))
		return SPW_METER_FOREIGN;
	if (ip_end > frame_bytes)
		return SPW_METER_MALFORMED;

	if (packet->tcp) {
		__u32 header;
		__u8 flags;

		SPW_METER_NEED_OURS(at, sizeof(struct tcphdr));
		header = at[12] >> 4;
		header *= 4;
		flags = at[13];
		if (header < sizeof(struct tcphdr) || offset + header > ip_end)
			return SPW_METER_MALFORMED;
		packet->payload_bytes = ip_end - offset - header;
		packet->payload_at = offset + header;
		packet->syn = (flags & (SPW_METER_TCP_SYN | SPW_METER_TCP_ACK)) == SPW_METER_TCP_SYN;
		packet->fin = flags & SPW_METER_TCP_FIN;
		packet->rst = flags & SPW_METER_TCP_RST;
		if (direction == SPW_METER_EGRESS) {
			packet->accepts = (flags & (SPW_METER_TCP_SYN | SPW_METER_TCP_ACK)) ==
					  (SPW_METER_TCP_SYN | SPW_METER_TCP_ACK);
			/* A reset that acknowledges and has sequence number 0 answers a segment without
			 * ACK, which is a SYN (RFC 9293, 3.5.2). */
			packet->refuses =
			    packet->rst && (flags & SPW_METER_TCP_ACK) && *(const __u32 *)(at + 4) == 0;
			packet->was_closed = packet->rst && !(flags & SPW_METER_TCP_ACK);
		}
	} else {
		if (offset + sizeof(struct udphdr) > ip_end)
			return SPW_METER_MALFORMED;
		if (config->dns) {
			SPW_METER_NEED_OURS(at, sizeof(struct udphdr) + SPW_METER_DNS_HEADER);
			if (offset + sizeof(struct udphdr) + SPW_METER_DNS_HEADER > ip_end)
				return SPW_METER_MALFORMED;
			id = *(const __u16 *)(at + 8) | 0x10000;
			if (!(at[10] & SPW_METER_DNS_RESPONSE) != (direction == SPW_METER_INGRESS))
				return SPW_METER_FOREIGN; /* an answer coming in: the unit asked */
			/* A query asks one question (RFC 9619). Junk would wait for its answer till the
			 * time-out. */
			if (direction == SPW_METER_INGRESS && *(const __u16 *)(at + 12) != spw_be16(1))
				return SPW_METER_MALFORMED;
			packet->rcode = at[11] & 15;
		}
	}
	ports = (__u32)client | (__u32)service << 16;
	packet->hash = spw_meter_key(config, family, words, id, ports, protocol);
	return SPW_METER_OURS;
}
#undef SPW_METER_NEED
#undef SPW_METER_NEED_OURS
