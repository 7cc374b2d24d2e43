import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Part, ToolPart, ViewMessage } from '../../../src/domain/transcript/message.ts';
import { RECORDINGS_FOLDER } from '../../support/recordings.ts';
import { conversation } from './conversation-arbitrary.ts';
import {
  type Quantiles,
  RECORDED_LENGTHS,
  RECORDED_SHARES,
  RECORDED_STEPS_PER_TURN,
  valueAt,
} from './recorded-statistics.ts';

/** Messages from the recording or from the generator, in one form. */
type Said = Readonly<{
  role: 'user' | 'assistant';
  text: string;
  reasoning: string;
  calls: readonly Readonly<{ toolName: string; inputChars: number; outputChars: number; failed: boolean }>[];
}>;

function figuresOf(sessions: readonly (readonly Said[])[]) {
  const all = sessions.flat();
  const users = all.filter(({ role }) => role === 'user');
  const steps = all.filter(({ role }) => role === 'assistant');
  const calls = steps.flatMap((step) => step.calls);
  const lengths = (texts: readonly string[]): number[] => texts.flatMap((text) => (text === '' ? [] : [text.length]));
  const share = <T>(items: readonly T[], holds: (item: T) => boolean): number =>
    items.filter(holds).length / items.length;
  const turns = sessions.flatMap(turnsOf);
  return {
    lengths: {
      user: lengths(users.map(({ text }) => text)),
      text: lengths(steps.map(({ text }) => text)),
      reasoning: lengths(steps.map(({ reasoning }) => reasoning)),
      toolInput: calls.filter(({ toolName }) => toolName !== 'read').map(({ inputChars }) => inputChars),
      toolOutput: calls.filter(({ failed }) => !failed).map(({ outputChars }) => outputChars),
    },
    stepsPerTurn: turns.map((turn) => turn.length),
    shares: {
      withText: share(steps, ({ text }) => text !== ''),
      withReasoning: share(steps, ({ reasoning }) => reasoning !== ''),
      withoutCalls: share(steps, (step) => step.calls.length === 0),
      answeredTurns: share(turns, (turn) => turn.at(-1)?.calls.length === 0),
      bash: share(calls, ({ toolName }) => toolName === 'bash'),
      edit: share(calls, ({ toolName }) => toolName === 'edit'),
      read: share(calls, ({ toolName }) => toolName === 'read'),
      write: share(calls, ({ toolName }) => toolName === 'write'),
    },
    withParallelCalls: share(steps, (step) => step.calls.length > 1),
    failed: share(calls, ({ failed }) => failed),
    usersInARow: 1 - turns.length / users.length,
  };
}

/** The steps of every turn. */
function turnsOf(said: readonly Said[]): Said[][] {
  const turns: Said[][] = [];
  said.forEach((message, index) => {
    if (message.role === 'assistant') turns.at(-1)?.push(message);
    else if (said[index - 1]?.role !== 'user') turns.push([]);
  });
  return turns;
}

function saidIn({ role, parts }: ViewMessage): Said {
  const textOf = (type: 'text' | 'reasoning'): string =>
    parts.flatMap((part: Part) => (part.type === type ? [part.text] : [])).join('');
  const calls = parts.filter((part): part is ToolPart => part.type === 'tool');
  return {
    role,
    text: textOf('text'),
    reasoning: textOf('reasoning'),
    calls: calls.map(({ toolName, input, output, state }) => ({
      toolName,
      inputChars: JSON.stringify(input).length,
      outputChars: output?.type === 'execution-denied' ? 0 : String(output?.value).length,
      failed: state === 'error',
    })),
  };
}

/** Quantiles may differ by this factor: the shape matters, not the exact length. */
const FACTOR = 2;
const SLACK_CHARS = 40;

function expectLike(values: readonly number[], quantiles: Quantiles, slack: number): void {
  const sorted = values.toSorted((a, b) => a - b);
  for (const share of [0.25, 0.5, 0.75, 0.9, 0.95]) {
    const value = sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
    const recorded = valueAt(quantiles, share);
    expect(value, `at ${share}`).toBeGreaterThan(recorded / FACTOR - slack);
    expect(value, `at ${share}`).toBeLessThan(recorded * FACTOR + slack);
  }
}

const { steps, calls, usersInARow, answeredTurns } = RECORDED_SHARES;

function expectRecordedShape(figures: ReturnType<typeof figuresOf>): void {
  for (const kind of ['user', 'text', 'reasoning', 'toolInput', 'toolOutput'] as const) {
    expectLike(figures.lengths[kind], RECORDED_LENGTHS[kind], SLACK_CHARS);
  }
  expectLike(figures.stepsPerTurn, RECORDED_STEPS_PER_TURN, 1);
  const recorded = { ...calls, ...steps, answeredTurns };
  for (const [name, share] of Object.entries(figures.shares)) {
    const expected = recorded[name as keyof typeof figures.shares];
    expect(Math.abs(share - expected), `${name}: ${share}`).toBeLessThan(0.06);
  }
  expect(Math.abs(figures.usersInARow - usersInARow)).toBeLessThan(0.06);
}

describe('the generated conversations', () => {
  const figures = figuresOf(fc.sample(conversation, { numRuns: 60, seed: 1 }).map((view) => view.map(saidIn)));

  it('have the lengths, turns, tools and shares of the recorded session', () => {
    expectRecordedShape(figures);
  });

  it('have a few more errors and parallel batches than it: those are what breaks', () => {
    expect(figures.failed).toBeGreaterThan(calls.failed);
    expect(figures.failed).toBeLessThan(4 * calls.failed);
    expect(figures.withParallelCalls).toBeGreaterThan(steps.withParallelCalls);
    expect(figures.withParallelCalls).toBeLessThan(4 * steps.withParallelCalls);
  });
});

const FILE = path.join(RECORDINGS_FOLDER, 'coding-refactor-484-calls.jsonl');

const recordedLine = z.discriminatedUnion('type', [
  z.object({ type: z.literal('transcript') }),
  z.object({ type: z.literal('user'), text: z.string() }),
  z.object({
    type: z.literal('step'),
    text: z.string(),
    reasoning: z.string().default(''),
    toolCalls: z.array(
      z.object({ name: z.string(), input: z.json(), output: z.string(), isError: z.boolean().default(false) }),
    ),
  }),
]);

function saidInRecording(text: string): Said[] {
  return text
    .trim()
    .split('\n')
    .map((row) => recordedLine.parse(JSON.parse(row)))
    .flatMap((record): Said[] => {
      if (record.type === 'transcript') return [];
      if (record.type === 'user') return [{ role: 'user', text: record.text, reasoning: '', calls: [] }];
      const made = record.toolCalls.map(({ name, input, output, isError }) => ({
        toolName: name,
        inputChars: JSON.stringify(input).length,
        outputChars: output.length,
        failed: isError,
      }));
      return [{ role: 'assistant', text: record.text, reasoning: record.reasoning, calls: made }];
    });
}

describe('the statistics that they are fitted to', () => {
  if (existsSync(FILE)) {
    it('are those of the recorded session', () => {
      expectRecordedShape(figuresOf([saidInRecording(readFileSync(FILE, 'utf8'))]));
    });
  } else {
    const reason = `no ${FILE}: set BATON_TEST_TRANSCRIPTS to the folder of the recorded conversations`;
    process.stdout.write(`tests: the generator's statistics are not compared with the recording: ${reason}\n`);
    it('are those of the recorded session', (context) => context.skip(reason));
  }
});
