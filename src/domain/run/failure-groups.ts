import type { ErrorCode } from '../errors.ts';

export type FailedRun = Readonly<{
  runId: string;
  sessionId: string;
  tenant: string;
  agent: string;
  /** `provider/model` of its last answer. Null: it had none. */
  model: string | null;
  code: ErrorCode;
  message: string;
  at: Date;
}>;

export type FailureGroup = Readonly<{
  /** The same for the same cause, in every process and at any time. */
  fingerprint: string;
  code: ErrorCode;
  provider: string | null;
  model: string | null;
  agent: string;
  /** The message without what differs from run to run. */
  text: string;
  count: number;
  tenants: number;
  firstAt: Date;
  lastAt: Date;
  /** Hours with failures, by their beginning in UTC, in order. */
  hours: readonly Readonly<{ hour: Date; count: number }>[];
  newest: readonly FailedRun[];
}>;

const NEWEST = 5;
const TEXT_CHARS = 200;
const HOUR_MS = 3_600_000;

/**
 * Groups failed runs by cause, the most frequent cause first.
 * @param newest how many runs each group shows
 */
export function groupFailures(runs: readonly FailedRun[], newest: number = NEWEST): FailureGroup[] {
  const groups = Map.groupBy(runs, keyOf);
  return [...groups]
    .map(([key, group]) => toGroup(key, group, newest))
    .sort((a, b) => b.count - a.count || b.lastAt.getTime() - a.lastAt.getTime());
}

const keyOf = ({ code, model, agent, message }: FailedRun): string =>
  JSON.stringify([code, model, agent, normalizeMessage(message)]);

function toGroup(key: string, group: readonly FailedRun[], newest: number): FailureGroup {
  const runs = group.toSorted((a, b) => b.at.getTime() - a.at.getTime());
  const [last] = runs;
  const first = runs.at(-1);
  if (last === undefined || first === undefined) throw new Error('a group has runs');
  const byHour = Map.groupBy(runs.toReversed(), ({ at }) => Math.floor(at.getTime() / HOUR_MS));
  const { code, model, agent, message } = last;
  return {
    fingerprint: fingerprintOf(key),
    code,
    provider: model === null ? null : (model.split('/')[0] ?? null),
    model,
    agent,
    text: normalizeMessage(message),
    count: runs.length,
    tenants: new Set(runs.map(({ tenant }) => tenant)).size,
    firstAt: first.at,
    lastAt: last.at,
    hours: [...byHour].map(([hour, each]) => ({ hour: new Date(hour * HOUR_MS), count: each.length })),
    newest: runs.slice(0, newest),
  };
}

/**
 * A message without what differs from run to run and what may be of a user: quoted texts, addresses, ids and numbers.
 * At most 200 characters.
 */
export function normalizeMessage(message: string): string {
  return message
    .slice(0, 4 * TEXT_CHARS)
    .replaceAll(/https?:\/\/\S+/g, '<url>')
    .replaceAll(/"[^"]*"|`[^`]*`|(?<![\p{L}\d])'[^']*'/gu, '<text>')
    .replaceAll(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi, '<id>')
    .replaceAll(/\b[A-Za-z]+[_-](?=[A-Za-z0-9]*\d)[A-Za-z0-9_-]{6,}\b/g, '<id>')
    .replaceAll(/\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b/gi, '<id>')
    .replaceAll(/\d+(?:[.,:]\d+)*/g, '#')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .slice(0, TEXT_CHARS);
}

/** FNV-1a with 64 bits, in hex: it tells groups apart and protects nothing. */
function fingerprintOf(key: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(key)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return hash.toString(16).padStart(16, '0');
}
