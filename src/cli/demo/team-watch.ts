import type { BatonClient } from '../../client/client.ts';
import type { StreamEvent } from '../../client/session-events.ts';
import type { Printer } from '../terminal/printer.ts';
import type { Tone } from '../terminal/progress.ts';
import { count, MAX_ERROR_CHARS, oneLine, shortArguments, shortResult } from '../terminal/words.ts';

const MAX_TASK_CHARS = 80;

/** Disposing it ends the following of the children. */
type TeamWatch = Disposable &
  Readonly<{
    /** Shows an event of the agent that leads. False: the event is not about its children. */
    see: (event: StreamEvent) => Promise<boolean>;
  }>;

type Watching = Readonly<{ api: BatonClient; printer: Printer; signal: AbortSignal }>;
type Begun = Extract<StreamEvent, { type: 'child:started' }>['data'];
type Ended = Extract<StreamEvent, { type: 'child:ended' }>['data'];

/** A child that works: its number in the output, and a promise that resolves after its last line. */
type Member = Readonly<{ no: number; display: Promise<void> }>;

/**
 * Shows children as a tree below the agent that leads: their begin, their work and the delivery of their answers. It
 * follows the children's own logs for that.
 */
export function createTeamWatch({ api, printer, signal: callerSignal }: Watching): TeamWatch {
  const stop = new AbortController();
  const signal = AbortSignal.any([callerSignal, stop.signal]);
  /** Tasks by call, in the order of the calls. The children may begin in another order. */
  const tasks = new Map<string, string>();
  const members = new Map<string, Member>();
  const show = (tone: Tone, text: string): void => printer.print({ kind: 'line', tone, text });

  const follow = async (no: number, { sessionId, childRunId }: Begun): Promise<void> => {
    for await (const event of api.events(sessionId, { after: 0, signal })) {
      const line = childLine(event);
      if (line !== null) show(line.tone, `│  ${no} ${line.text}`);
      if (ENDS.has(event.type) && 'runId' in event && event.runId === childRunId) return;
    }
  };
  const begin = (child: Begun): void => {
    const no = [...tasks.keys()].indexOf(child.id) + 1;
    show('note', `├─ ${child.agent} ${no} begins: ${tasks.get(child.id) ?? ''}`.trimEnd());
    // A failure loses only lines of the output: the parent's log has the end of the child.
    members.set(child.id, { no, display: follow(no, child).catch(() => undefined) });
  };
  const end = async (child: Ended): Promise<void> => {
    const member = members.get(child.id);
    await member?.display;
    show(child.status === 'completed' ? 'good' : 'bad', endLine(child, member?.no ?? null));
  };
  return {
    async see(event) {
      if (event.type === 'llm:tool-call') {
        const task = taskOf(event.data.args);
        if (task !== '') tasks.set(event.data.id, task);
      }
      if (event.type === 'child:started') begin(event.data);
      else if (event.type === 'child:ended') await end(event.data);
      else return event.type === 'llm:tool-result' && members.has(event.data.id);
      return true;
    },
    [Symbol.dispose]: () => stop.abort(),
  };
}

const ENDS: ReadonlySet<string> = new Set(['run:completed', 'run:failed', 'run:cancelled', 'run:incomplete']);

const taskOf = (args: unknown): string => {
  const { task } = Object(args);
  return typeof task === 'string' ? oneLine(task, MAX_TASK_CHARS) : '';
};

function childLine(event: StreamEvent): Readonly<{ tone: Tone; text: string }> | null {
  if (event.type === 'llm:tool-call') {
    const { toolName, args } = event.data;
    return { tone: 'plain', text: `→ ${toolName} ${shortArguments(args)}`.trimEnd() };
  }
  if (event.type !== 'llm:tool-result') return null;
  const { toolName, success, sanitized } = event.data;
  return { tone: success ? 'dim' : 'bad', text: `${success ? '←' : '✗'} ${toolName} ${shortResult(sanitized)}` };
}

function endLine({ agent, status, steps, tokens, error }: Ended, no: number | null): string {
  const name = no === null ? agent : `${agent} ${no}`;
  if (status === 'completed') {
    return `├─ ${name} ✓ its answer is delivered, after ${count(steps, 'step')}, ${count(tokens, 'token')}`;
  }
  const why = error === undefined ? '' : `: ${oneLine(error.message, MAX_ERROR_CHARS)}`;
  return `├─ ${name} ✗ ${status}${why}`;
}
