import { describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { createLog, type LogEvent } from '../../src/platform/log.ts';

const RUN = '018f2b5c-0000-7000-8000-000000000001';
const SESSION = '018f2b5c-0000-7000-8000-000000000002';
const FENCED: LogEvent = { event: 'step_fenced', runId: RUN, sessionId: SESSION, step: 2, attempt: 1 };

function logOf(events: readonly LogEvent[], isTerminal: boolean): string[] {
  const lines: string[] = [];
  const log = createLog({ level: 'info', isTerminal, destination: { write: (line) => void lines.push(line) } });
  for (const event of events) log('warn', event);
  return lines;
}

describe('a log line', () => {
  it('is JSON with its level as a word and ids as the API has them', () => {
    const lines = logOf([FENCED, { event: 'runs_released', runIds: [RUN] }], false).map((line) => JSON.parse(line));
    const runId = formatId('run', RUN);
    expect(lines).toMatchObject([
      { level: 'warn', event: 'step_fenced', runId, sessionId: formatId('session', SESSION), step: 2 },
      { level: 'warn', event: 'runs_released', runIds: [runId] },
    ]);
    expect(JSON.stringify(lines)).not.toContain(RUN);
  });

  it('is one that a person reads on a terminal: time, level, event, and the rest behind it', () => {
    const [line = '', ...others] = logOf(
      [{ event: 'process_failed', role: 'dev', error: { name: 'Error', message: 'no\nway' } }],
      true,
    );
    expect(others).toEqual([]);
    expect(line).toMatch(
      /^\[\d\d:\d\d:\d\d\.\d{3}\] WARN: process_failed \{"role":"dev","error":\{"name":"Error","message":"no\\nway"\}\}\n$/,
    );
  });
});
