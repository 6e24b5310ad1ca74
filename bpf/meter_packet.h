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

/* The frame, as far as it has been read. */
struct spw_meter_cursor {
	const __u8 *data, *at, *end;
	__u32 frame_bytes; /* of the whole frame, of which [data, end) is available */
	__u32 offset;	   /* of `at` */
	__u32 ip_end;	   /* offset of the end of the IP packet */
	__u32 client[4];   /* its address: a word, or four */
	__u8 family;	   /* 4 or 6 */
	__u8 protocol;
};

#define SPW_METER_NEED(c, bytes)                                                                             \
	do {                                                                                                 \
		if ((c)->at + (bytes) > (c)->end)                                                            \
			return spw_meter_lacks(c, SPW_METER_FOREIGN);                                        \
	} while (0)
/* The same once we know that the packet is a service's. */
#define SPW_METER_NEED_OURS(c, bytes)                                                                        \
	do {                                                                                                 \
		if ((c)->at + (bytes) > (c)->end)                                                            \
			return spw_meter_lacks(c, SPW_METER_MALFORMED);                                      \
	} while (0)

SPW_INLINE enum spw_meter_parsed spw_meter_lacks(const struct spw_meter_cursor *c,
						 enum spw_meter_parsed whole)
{
	return c->frame_bytes > (__u32)(c->end - c->data) ? SPW_METER_SHORT : whole;
}

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

SPW_INLINE void spw_meter_skip(struct spw_meter_cursor *c, __u32 bytes)
{
	c->at += bytes;
	c->offset += bytes;
}

/* An ICMP message that goes out. Ours if it says that no one listens at a service's port. It quotes the
 * packet that came in: its source is the client. */
SPW_INLINE enum spw_meter_parsed spw_meter_parse_refusal(const struct spw_meter_config *config,
							 struct spw_meter_cursor *c,
							 struct spw_meter_packet *packet)
{
	__u32 client[4] = {0, 0, 0, 0}, id = 0;
	const __u32 *addr;
	__u16 port, service;
	__u8 protocol;

	SPW_METER_NEED(c, SPW_METER_ICMP_HEADER);
	if (c->family == 4) {
		if (c->at[0] != SPW_METER_ICMP_UNREACHABLE || c->at[1] != SPW_METER_ICMP_NO_PORT)
			return SPW_METER_FOREIGN;
		c->at += SPW_METER_ICMP_HEADER;
		SPW_METER_NEED(c, sizeof(struct iphdr));
		if (*c->at != 0x45)
			return SPW_METER_FOREIGN;
		protocol = ((const struct iphdr *)c->at)->protocol;
		client[0] = *(const __u32 *)(c->at + 12);
		c->at += sizeof(struct iphdr);
	} else {
		if (c->at[0] != SPW_METER_ICMPV6_UNREACHABLE || c->at[1] != SPW_METER_ICMPV6_NO_PORT)
			return SPW_METER_FOREIGN;
		c->at += SPW_METER_ICMP_HEADER;
		SPW_METER_NEED(c, sizeof(struct ipv6hdr));
		protocol = ((const struct ipv6hdr *)c->at)->nexthdr;
		addr = (const __u32 *)(c->at + 8);
		client[0] = addr[0];
		client[1] = addr[1];
		client[2] = addr[2];
		client[3] = addr[3];
		c->at += sizeof(struct ipv6hdr);
	}
	if (protocol != IPPROTO_UDP && protocol != IPPROTO_TCP)
		return SPW_METER_FOREIGN;
	packet->tcp = protocol == IPPROTO_TCP;
	SPW_METER_NEED(c, 8);
	port = ((const __u16 *)c->at)[0];
	service = ((const __u16 *)c->at)[1];
	if (!spw_meter_is_service(config, packet->tcp, service))
		return SPW_METER_FOREIGN;
	if (!packet->tcp && config->dns) {
		SPW_METER_NEED(c, sizeof(struct udphdr) + 2);
		id = *(const __u16 *)(c->at + 8) | 0x10000;
	}
	packet->refuses = 1;
	packet->hash =
	    spw_meter_key(config, c->family, client, id, (__u32)port | (__u32)service << 16, protocol);
	return SPW_METER_OURS;
}

/* Ethernet header and VLAN tags. SPW_METER_OURS: go on. */
SPW_INLINE enum spw_meter_parsed spw_meter_read_ethernet(struct spw_meter_cursor *c, __u16 *ethertype)
{
	SPW_METER_NEED(c, ETH_HLEN);
	*ethertype = ((const struct ethhdr *)c->at)->h_proto;
	spw_meter_skip(c, ETH_HLEN);
#pragma GCC unroll 2
	for (int tags = 0; tags < 2; tags++) {
		if (*ethertype != spw_be16(ETH_P_8021Q) && *ethertype != spw_be16(ETH_P_8021AD))
			break;
		SPW_METER_NEED(c, 4);
		*ethertype = ((const __u16 *)c->at)[1];
		spw_meter_skip(c, 4);
	}
	return SPW_METER_OURS;
}

SPW_INLINE enum spw_meter_parsed spw_meter_read_ipv4(struct spw_meter_cursor *c,
						     enum spw_meter_direction direction)
{
	const struct iphdr *ip = (const struct iphdr *)c->at;
	__u32 header;

	SPW_METER_NEED(c, sizeof(*ip));
	header = (*c->at & 15) * 4;
	if (*c->at >> 4 != 4 || header < sizeof(*ip) || (ip->frag_off & spw_be16(SPW_METER_FRAGMENT_OFFSET)))
		return SPW_METER_FOREIGN;
	c->family = 4;
	c->protocol = ip->protocol;
	/* 0: a merged packet beyond 64 KiB, whose length only the frame knows. */
	c->ip_end = ip->tot_len ? c->offset + spw_be16(ip->tot_len) : c->frame_bytes;
	c->client[0] = *(const __u32 *)(c->at + (direction == SPW_METER_INGRESS ? 12 : 16));
	spw_meter_skip(c, header);
	return SPW_METER_OURS;
}

SPW_INLINE enum spw_meter_parsed spw_meter_read_ipv6(struct spw_meter_cursor *c,
						     enum spw_meter_direction direction)
{
	const struct ipv6hdr *ip = (const struct ipv6hdr *)c->at;
	const __u32 *addr;

	SPW_METER_NEED(c, sizeof(*ip));
	c->family = 6;
	c->protocol = ip->nexthdr;
	c->ip_end =
	    ip->payload_len ? c->offset + (__u32)sizeof(*ip) + spw_be16(ip->payload_len) : c->frame_bytes;
	addr = (const __u32 *)(c->at + (direction == SPW_METER_INGRESS ? 8 : 24));
	c->client[0] = addr[0];
	c->client[1] = addr[1];
	c->client[2] = addr[2];
	c->client[3] = addr[3];
	spw_meter_skip(c, sizeof(*ip));
	if (c->protocol == IPPROTO_FRAGMENT) { /* a large answer's first fragment has the ports */
		SPW_METER_NEED(c, 8);
		if (((const __u16 *)c->at)[1] & spw_be16(SPW_METER_V6_OFFSET))
			return SPW_METER_FOREIGN;
		c->protocol = *c->at;
		spw_meter_skip(c, 8);
	}
	return SPW_METER_OURS;
}

SPW_INLINE enum spw_meter_parsed spw_meter_read_tcp(struct spw_meter_cursor *c,
						    enum spw_meter_direction direction,
						    struct spw_meter_packet *packet)
{
	__u32 header;
	__u8 flags;

	SPW_METER_NEED_OURS(c, sizeof(struct tcphdr));
	header = c->at[12] >> 4;
	header *= 4;
	flags = c->at[13];
	if (header < sizeof(struct tcphdr) || c->offset + header > c->ip_end)
		return SPW_METER_MALFORMED;
	packet->payload_bytes = c->ip_end - c->offset - header;
	packet->payload_at = c->offset + header;
	packet->syn = (flags & (SPW_METER_TCP_SYN | SPW_METER_TCP_ACK)) == SPW_METER_TCP_SYN;
	packet->fin = flags & SPW_METER_TCP_FIN;
	packet->rst = flags & SPW_METER_TCP_RST;
	if (direction == SPW_METER_EGRESS) {
		packet->accepts = (flags & (SPW_METER_TCP_SYN | SPW_METER_TCP_ACK)) ==
				  (SPW_METER_TCP_SYN | SPW_METER_TCP_ACK);
		/* A reset that acknowledges and has sequence number 0 answers a segment without ACK, which
		 * is a SYN (RFC 9293, 3.5.2). */
		packet->refuses =
		    packet->rst && (flags & SPW_METER_TCP_ACK) && *(const __u32 *)(c->at + 4) == 0;
		packet->was_closed = packet->rst && !(flags & SPW_METER_TCP_ACK);
	}
	return SPW_METER_OURS;
}

/* *id: what tells requests of one client port apart, or 0. */
SPW_INLINE enum spw_meter_parsed spw_meter_read_udp(const struct spw_meter_config *config,
						    struct spw_meter_cursor *c,
						    enum spw_meter_direction direction,
						    struct spw_meter_packet *packet, __u32 *id)
{
	if (c->offset + sizeof(struct udphdr) > c->ip_end)
		return SPW_METER_MALFORMED;
	if (!config->dns)
		return SPW_METER_OURS;
	SPW_METER_NEED_OURS(c, sizeof(struct udphdr) + SPW_METER_DNS_HEADER);
	if (c->offset + sizeof(struct udphdr) + SPW_METER_DNS_HEADER > c->ip_end)
		return SPW_METER_MALFORMED;
	*id = *(const __u16 *)(c->at + 8) | 0x10000;
	if (!(c->at[10] & SPW_METER_DNS_RESPONSE) != (direction == SPW_METER_INGRESS))
		return SPW_METER_FOREIGN; /* an answer coming in: the unit asked */
	/* A query asks one question (RFC 9619). Junk would wait for its answer till the time-out. */
	if (direction == SPW_METER_INGRESS && *(const __u16 *)(c->at + 12) != spw_be16(1))
		return SPW_METER_MALFORMED;
	packet->rcode = c->at[11] & 15;
	return SPW_METER_OURS;
}

/* frame_bytes: length of the whole frame, of which [data, end) is available. */
SPW_INLINE enum spw_meter_parsed spw_meter_parse(const struct spw_meter_config *config, const __u8 *data,
						 const __u8 *end, __u32 frame_bytes,
						 enum spw_meter_direction direction,
						 struct spw_meter_packet *packet)
{
	struct spw_meter_cursor c = {data, data, end, frame_bytes, 0, 0, {0, 0, 0, 0}, 0, 0};
	enum spw_meter_parsed parsed;
	__u16 ethertype, client, service;
	__u32 id = 0;

	parsed = spw_meter_read_ethernet(&c, &ethertype);
	if (parsed)
		return parsed;
	if (ethertype == spw_be16(ETH_P_IP))
		parsed = spw_meter_read_ipv4(&c, direction);
	else if (ethertype == spw_be16(ETH_P_IPV6))
		parsed = spw_meter_read_ipv6(&c, direction);
	else
		return SPW_METER_FOREIGN;
	if (parsed)
		return parsed;
	if (direction == SPW_METER_EGRESS &&
	    (c.family == 4 ? c.protocol == IPPROTO_ICMP : c.protocol == IPPROTO_ICMPV6))
		return spw_meter_parse_refusal(config, &c, packet);
	if (c.protocol != IPPROTO_UDP && c.protocol != IPPROTO_TCP)
		return SPW_METER_FOREIGN;
	packet->tcp = c.protocol == IPPROTO_TCP;

	SPW_METER_NEED(&c, 4);
	client = ((const __u16 *)c.at)[direction == SPW_METER_INGRESS ? 0 : 1];
	service = ((const __u16 *)c.at)[direction == SPW_METER_INGRESS ? 1 : 0];
	if (!spw_meter_is_service(config, packet->tcp, service))
		return SPW_METER_FOREIGN;
	if (c.ip_end > frame_bytes)
		return SPW_METER_MALFORMED;
	parsed = packet->tcp ? spw_meter_read_tcp(&c, direction, packet)
			     : spw_meter_read_udp(config, &c, direction, packet, &id);
	if (parsed)
		return parsed;
	packet->hash =
	    spw_meter_key(config, c.family, c.client, id, (__u32)client | (__u32)service << 16, c.protocol);
	return SPW_METER_OURS;
}
#undef SPW_METER_NEED
#undef SPW_METER_NEED_OURS
