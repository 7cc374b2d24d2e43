import { appendFileSync, existsSync, rmSync, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { Tool, ToolContext } from '../../src/tools/tool.ts';

const inputSchema = z.strictObject({
  /** Identifies the call. */
  token: z.string(),
  /** Time that the work takes before its effect, and after it. */
  beforeMs: z.number(),
  afterMs: z.number(),
});

/** Event that the process logs before it stands still. Its field `goOn` is the file for which the process waits. */
export const STANDS_STILL = 'test_stands_still';

/**
 * After so many effects the process stands still, before it tells the result of the last one. The suite's fleet then
 * kills the process or lets it go on.
 */
const stopAfterEffects = Number(process.env['BATON_TEST_STOP_AFTER_EFFECTS'] ?? Number.POSITIVE_INFINITY);
/** Filler that makes each result longer, to fill a context. */
const padding = ' and the yard was wet with rain'.repeat(Number(process.env['BATON_TEST_OUTPUT_CHARS'] ?? 0) / 31);
/** After so many effects the process ends by itself. */
const exitAfterEffects = Number(process.env['BATON_TEST_EXIT_AFTER_EFFECTS'] ?? Number.POSITIVE_INFINITY);
const ledgerFile = process.env['BATON_TEST_LEDGER'] ?? '';

/** Blocks the whole process until it is killed, or until the file `goOn` exists: the process was spared. */
function standStill(): void {
  const goOn = `${ledgerFile}.${process.pid}`;
  writeSync(process.stdout.fd, `${JSON.stringify({ event: STANDS_STILL, goOn })}\n`);
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(goOn)) Atomics.wait(nothing, 0, 0, 5);
  rmSync(goOn);
}

/**
 * Tools whose effect is a line in a file: `append` must happen once, `put` may be repeated under its call key, `peek`
 * has none.
 */
export default function createLedgerTools(): Tool[] {
  let effects = 0;
  const leaveTrace = (name: string, token: string, callKey: string): void => {
    appendFileSync(ledgerFile, `${JSON.stringify({ tool: name, token, callKey, pid: process.pid, at: Date.now() })}\n`);
    effects += 1;
    if (effects >= exitAfterEffects) {
      writeSync(process.stderr.fd, 'nothing works any more\n');
      process.exit(1);
    }
    if (effects < stopAfterEffects) return;
    effects = 0;
    standStill();
  };
  const toolNamed = (name: string, traits: Pick<Tool, 'idempotent' | 'readOnly'>): Tool => ({
    name,
    description: `${name}: leaves a trace.`,
    inputSchema,
    ...traits,
    async execute(input: unknown, { signal, callKey }: ToolContext) {
      const { token, beforeMs, afterMs } = inputSchema.parse(input);
      await delay(beforeMs, undefined, { signal });
      if (traits.readOnly !== true) leaveTrace(name, token, callKey);
      // The effect has happened, so the call tells it even if the signal has aborted.
      await delay(afterMs);
      return padding === '' ? `done ${token}` : `done ${token}${padding} done ${token}`;
    },
  });
  return [toolNamed('append', {}), toolNamed('put', { idempotent: true }), toolNamed('peek', { readOnly: true })];
}
