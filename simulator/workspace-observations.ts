import type { SimulatedMessage } from './request.ts';
import { parseJson } from './wire.ts';

/** The purpose of a tool call. It is part of the call's id, so that the history alone shows it. */
export type Purpose = 'survey' | 'search' | 'widen' | 'context' | 'read' | 'measure' | 'report' | 'note';

/** A finished tool call of the current task. */
export type Observation = Readonly<{
  purpose: Purpose | undefined;
  tool: string;
  input: Readonly<Record<string, unknown>>;
  output: string;
  failed: boolean;
}>;

/** The part of the conversation that belongs to the current task. */
export type TaskView = Readonly<{
  /** The text that started it. */
  task: string;
  /** Messages that the user sent during the task. */
  notes: readonly string[];
  /** Those of `notes` without a reply yet. */
  newNotes: readonly string[];
  observations: readonly Observation[];
  /** True: the model has already replied in this task. */
  hasBegun: boolean;
}>;

/** The agent writes its report to this file. Its own report does not count as a finding. */
export const REPORT_PATH = 'baton-report.md';

export type Hit = Readonly<{ path: string; line: number; text: string }>;

/** The id of a call: it carries the purpose and is unique within a conversation that only grows. */
export function callId(purpose: Purpose, messageCount: number, index: number): string {
  return `call_${purpose}_${messageCount}_${index}`;
}

/** A field of a call's input as text. Empty: there is none. */
export function inputText({ input }: Pick<Observation, 'input'>, field: string): string {
  const value = input[field];
  return typeof value === 'string' ? value : '';
}

/** The current task: everything after the last reply without tool calls. */
export function viewTask(messages: readonly SimulatedMessage[]): TaskView {
  const lastAnswer = messages.findLastIndex(({ role, toolCalls }) => role === 'assistant' && toolCalls.length === 0);
  const stretch = messages.slice(lastAnswer + 1);
  const firstReply = stretch.findIndex(({ role }) => role === 'assistant');
  const lastReply = stretch.findLastIndex(({ role }) => role === 'assistant');
  const userTexts = (part: readonly SimulatedMessage[]) =>
    part.filter(({ role }) => role === 'user').map(({ text }) => text);
  const hasBegun = firstReply !== -1;
  return {
    task: userTexts(hasBegun ? stretch.slice(0, firstReply) : stretch).join('\n\n'),
    notes: hasBegun ? userTexts(stretch.slice(firstReply)) : [],
    newNotes: hasBegun ? userTexts(stretch.slice(lastReply)) : [],
    observations: observe(stretch),
    hasBegun,
  };
}

function observe(stretch: readonly SimulatedMessage[]): Observation[] {
  return stretch.flatMap((reply, index) => {
    const results = stretch.slice(index + 1).find(({ role }) => role !== 'user')?.toolResults ?? [];
    return reply.toolCalls.map(({ id, name, input }): Observation => {
      const output = results.find((result) => result.id === id)?.output ?? '';
      return { purpose: purposeOf(id), tool: name, input: asRecord(input), output, failed: isFailure(output) };
    });
  });
}

const PURPOSES: readonly Purpose[] = ['survey', 'search', 'widen', 'context', 'read', 'measure', 'report', 'note'];

function purposeOf(id: string): Purpose | undefined {
  const [, name] = id.split('_');
  return PURPOSES.find((purpose) => purpose === name);
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {};
}

function isFailure(output: string): boolean {
  const parsed = output.startsWith('{') ? parseJson(output)?.value : undefined;
  return output === '' || 'error' in asRecord(parsed);
}

/** Entries of a listing: directories end with "/". Sizes in bytes if the listing has them. */
export function listedEntries(observations: readonly Observation[]): { path: string; bytes: number | undefined }[] {
  return lastLines(observations, 'survey').map((line) => {
    const [name = ''] = line.split('\t');
    const bytes = /(\d+) bytes/.exec(line)?.[1];
    return { path: name.trim().replace(/@$/, ''), bytes: bytes === undefined ? undefined : Number(bytes) };
  });
}

export function hitsOf(observations: readonly Observation[], ...purposes: Purpose[]): Hit[] {
  return observations
    .filter(({ purpose, failed }) => !failed && purpose !== undefined && purposes.includes(purpose))
    .flatMap(({ output }) => dataLines(output))
    .flatMap((line) => {
      const [, path, no, text = ''] = /^(.+?):(\d+):\s?(.*)$/.exec(line) ?? [];
      return path === undefined || no === undefined
        ? []
        : [{ path: path.replace(/^\.\//, ''), line: Number(no), text }];
    })
    .filter(({ path }) => path !== REPORT_PATH);
}

/** The lines of a file that a call read, with their numbers. */
export function fileLines(observation: Observation): { no: number; text: string }[] {
  if (observation.failed) return [];
  return observation.output.split('\n').flatMap((line, index) => {
    const [, no, text = ''] = /^\s*(\d+)\t(.*)$/.exec(line) ?? [];
    if (no !== undefined) return [{ no: Number(no), text }];
    return line.startsWith('[') ? [] : [{ no: index + 1, text: line }];
  });
}

/** Lines of the newest successful output of a purpose. */
export function lastLines(observations: readonly Observation[], purpose: Purpose): string[] {
  const found = observations.findLast((each) => each.purpose === purpose && !each.failed);
  return found === undefined ? [] : dataLines(found.output);
}

/** Output lines without the tools' own notices, which stand in brackets. */
function dataLines(output: string): string[] {
  return output.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('['));
}
