import { BlockList, isIPv4, isIPv6 } from 'node:net';

/**
 * Addresses that are not on the public Internet, by the registries of special-purpose addresses
 * (https://www.iana.org/assignments/iana-ipv4-special-registry, …/iana-ipv6-special-registry): this host, private
 * networks, carrier-grade NAT, link-local (cloud metadata with it), documentation, benchmarks, multicast, reserved.
 * The ranges of ipaddr.js lack some of these (198.18/15, 64:ff9b:1::/48, 100::/64) and all below that belong to clouds.
 */
const BLOCKED_IPV4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const;

/**
 * Public by the registries, but from a machine of that cloud they lead to its metadata, configuration or internal
 * services: Azure's WireServer (https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16),
 * the metadata of Equinix Metal (`metadata.packet.net`), the infrastructure and service endpoints of IBM Cloud
 * (https://cloud.ibm.com/docs/vpc?topic=vpc-service-endpoints-for-vpc).
 */
const CLOUD_INTERNAL_IPV4 = [
  ['168.63.129.16', 32],
  ['192.80.8.124', 32],
  ['161.26.0.0', 16],
  ['166.8.0.0', 14],
] as const;

/** In IPv6 only global unicast is public, except these ranges. Tunnels may lead to any IPv4 address. */
const PUBLIC_IPV6 = ['2000::', 3] as const;
const BLOCKED_IPV6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const;

const blocked = new BlockList();
for (const [network, prefix] of [...BLOCKED_IPV4, ...CLOUD_INTERNAL_IPV4]) blocked.addSubnet(network, prefix, 'ipv4');
for (const [network, prefix] of BLOCKED_IPV6) blocked.addSubnet(network, prefix, 'ipv6');
const globalIpv6 = new BlockList();
globalIpv6.addSubnet(...PUBLIC_IPV6, 'ipv6');

/**
 * Whether an IP address is on the public Internet and not internal to a cloud; false for other text, since names are
 * resolved first. IPv4 in IPv6 (`::ffff:10.0.0.1`, `64:ff9b::a00:1`) is outside of global unicast and so never public.
 * Pure.
 */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !blocked.check(address, 'ipv4');
  // An address with a zone (`fe80::1%eth0`) belongs to one link.
  if (!isIPv6(address) || address.includes('%')) return false;
  return globalIpv6.check(address, 'ipv6') && !blocked.check(address, 'ipv6');
}
