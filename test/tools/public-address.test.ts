import { describe, expect, it } from 'vitest';
import { isPublicAddress } from '../../src/tools/http/public-address.ts';

const PUBLIC = [
  ['1.1.1.1', 'a resolver'],
  ['8.8.8.8', 'another'],
  ['9.255.255.255', 'the one before 10/8'],
  ['11.0.0.0', 'the one after it'],
  ['100.63.255.255', 'the one before carrier-grade NAT'],
  ['100.128.0.0', 'the one after it'],
  ['126.255.255.255', 'the one before loopback'],
  ['128.0.0.1', 'one after it'],
  ['172.15.255.255', 'the one before 172.16/12'],
  ['172.32.0.0', 'the one after it'],
  ['192.167.255.255', 'the one before 192.168/16'],
  ['192.169.0.0', 'the one after it'],
  ['223.255.255.255', 'the last of unicast'],
  ['2606:4700:4700::1111', 'a resolver by IPv6'],
  ['2a00:1450:4001:829::200e', 'a site by IPv6'],
] as const;

const NOT_PUBLIC = [
  ['0.0.0.0', 'any address: this host'],
  ['0.1.2.3', 'this network'],
  ['10.0.0.1', 'private'],
  ['10.255.255.255', 'private'],
  ['100.64.0.1', 'carrier-grade NAT'],
  ['100.100.100.200', 'metadata of Alibaba Cloud'],
  ['100.127.255.255', 'carrier-grade NAT'],
  ['127.0.0.1', 'loopback'],
  ['127.255.255.254', 'loopback'],
  ['169.254.0.1', 'link-local'],
  ['169.254.169.254', 'metadata of AWS, Azure, Google Cloud'],
  ['169.254.170.2', 'credentials of ECS'],
  ['172.16.0.1', 'private'],
  ['172.31.255.255', 'private'],
  ['192.0.0.192', 'metadata of Oracle Cloud'],
  ['192.0.2.1', 'documentation'],
  ['192.88.99.1', '6to4 relays'],
  ['192.168.1.1', 'private'],
  ['198.18.0.1', 'benchmarks'],
  ['198.19.255.255', 'benchmarks'],
  ['198.51.100.7', 'documentation'],
  ['203.0.113.9', 'documentation'],
  ['224.0.0.1', 'multicast'],
  ['239.255.255.255', 'multicast'],
  ['240.0.0.1', 'reserved'],
  ['255.255.255.255', 'broadcast'],
  ['::', 'any address by IPv6'],
  ['::1', 'loopback by IPv6'],
  ['0:0:0:0:0:0:0:1', 'loopback, written out'],
  ['::127.0.0.1', 'IPv4-compatible'],
  ['::ffff:127.0.0.1', 'IPv4-mapped loopback'],
  ['::ffff:7f00:1', 'the same in hexadecimal'],
  ['::ffff:10.0.0.1', 'IPv4-mapped private'],
  ['::ffff:8.8.8.8', 'IPv4-mapped: no name has such an address'],
  ['0:0:0:0:0:ffff:a9fe:a9fe', 'IPv4-mapped metadata, written out'],
  ['64:ff9b::10.0.0.1', 'NAT64 of a private one'],
  ['64:ff9b:1::1', 'local NAT64'],
  ['100::1', 'discard'],
  ['2001::1', 'Teredo'],
  ['2001:db8::1', 'documentation'],
  ['2002:7f00:1::', '6to4 of loopback'],
  ['3fff::1', 'documentation'],
  ['fc00::1', 'unique local'],
  ['fd00:ec2::254', 'metadata of AWS by IPv6'],
  ['fe80::1', 'link-local'],
  ['fe80::1%eth0', 'link-local with a zone'],
  ['fec0::1', 'site-local'],
  ['ff02::1', 'multicast'],
  ['localhost', 'a name'],
  ['2130706433', 'a number: URLs make an address of it'],
  ['127.1', 'a short form: URLs make an address of it'],
  ['', 'nothing'],
] as const;

describe('a public address', () => {
  it.each(PUBLIC)('is %s (%s)', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  it.each(NOT_PUBLIC)('is not %s (%s)', (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });
});
