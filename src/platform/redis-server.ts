import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import type { RedisOptions } from 'ioredis';
import { BatonError } from '../domain/errors.ts';
import type { Config } from './config.ts';
import { VARIABLES } from './settings.ts';

/** Where Redis is: its URL, and the options of ioredis that its URL has no words for. */
export type RedisServer = Readonly<{ url: string; via?: RedisRoute }>;

type RedisRoute = Pick<
  RedisOptions,
  'tls' | 'sentinels' | 'name' | 'sentinelPassword' | 'sentinelTLS' | 'enableTLSForSentinelMode'
>;

export type RedisSettings = Pick<Config, 'redisUrl' | 'redisCaFile' | 'redisSentinels' | 'redisSentinelPassword'>;

const SENTINEL_PORT = 26_379;

/**
 * The Redis of the settings, for every connection to it. Absent: queues and live events are in Postgres.
 * @throws BatonError `config_invalid` for a file without a certificate, or one that a URL without TLS would not use
 */
export function redisServerOf(config: RedisSettings): RedisServer | undefined {
  const { redisUrl: url, redisCaFile, redisSentinels, redisSentinelPassword } = config;
  if (url === undefined) return undefined;
  const isTls = url.startsWith('rediss:');
  if (redisCaFile !== undefined && !isTls) {
    throw invalid(`${VARIABLES.redisUrl} has no TLS: begin it with rediss://, or leave the file out`);
  }
  const tls = redisCaFile === undefined ? {} : { ca: readCertificates(redisCaFile) };
  if (redisSentinels === undefined) return redisCaFile === undefined ? { url } : { url, via: { tls } };
  return {
    url,
    via: {
      sentinels: redisSentinels.map(addressOf),
      name: new URL(url).hostname,
      ...(redisSentinelPassword !== undefined && { sentinelPassword: redisSentinelPassword }),
      ...(isTls && { tls, sentinelTLS: tls, enableTLSForSentinelMode: true }),
    },
  };
}

function readCertificates(file: string): string {
  try {
    const text = readFileSync(file, 'utf8');
    // Reads the first of them: TLS would leave out a text without any certificate in silence.
    new X509Certificate(text);
    return text;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw invalid(`${file} cannot be read as certificates in PEM (${message})`, error);
  }
}

const invalid = (message: string, cause?: unknown): BatonError =>
  new BatonError('config_invalid', `${VARIABLES.redisCaFile}: ${message}`, { cause });

/** @param text `host`, `host:port`, `[address]:port` or an IPv6 address */
function addressOf(text: string): { host: string; port: number } {
  if (isIPv6(text)) return { host: text, port: SENTINEL_PORT };
  const [, host = text, port] = /^\[?(.+?)\]?(?::(\d+))?$/.exec(text) ?? [];
  return { host, port: port === undefined ? SENTINEL_PORT : Number(port) };
}
