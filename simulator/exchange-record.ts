import type { IncomingMessage } from 'node:http';
import type { OpenRecord } from './journal.ts';
import type { Protocol } from './request.ts';
import type { Violation } from './violation.ts';

export function newRecord(protocol: Protocol, request: IncomingMessage, startedAtMs: number): OpenRecord {
  const headers = Object.entries(request.headers)
    .filter(([name]) => name !== 'authorization' && name !== 'x-api-key')
    .map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')]);
  return {
    no: 0,
    protocol,
    model: '',
    cacheKey: '',
    request: undefined,
    rawBody: undefined,
    headers: Object.fromEntries(headers),
    violations: [],
    violationClasses: [],
    promptTokens: 0,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    extendsPrefix: true,
    summary: false,
    refusal: undefined,
    usage: undefined,
    startedAtMs,
    outcome: 'in-progress',
    status: 0,
    endedAtMs: undefined,
    abortedAtMs: undefined,
    chunksSent: 0,
  };
}

/** Records the violations that a strict provider would refuse. */
export function note(record: OpenRecord, violations: readonly Violation[]): void {
  record.violations = violations.map(({ text }) => text);
  record.violationClasses = violations.map((each) => each.class);
}
