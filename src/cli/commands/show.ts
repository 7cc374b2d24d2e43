import type { BatonClient, Message, MessagePage, Part, Run, RunChild } from '../../client/client.ts';
import { REMOTE_USAGE, readRemote, takeArguments, writeJson, writeLine } from '../remote.ts';
import { readQueue, showWaiting } from '../show-waiting.ts';
import { cost, count, MAX_ERROR_CHARS, oneLine, printable, shortArguments, shortResult } from '../terminal/words.ts';
import { meterLine, watchRun, watchSession } from '../watch-run.ts';

export const usage = `baton show [options] SESSION|RUN

Shows a session with its context, its queue and its transcript; or a run.

  --follow          follow a run until it has ended or waits for an answer,
                    a session from now on, over all its runs, until Ctrl-C
${REMOTE_USAGE}`;

export async function run(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { values, positionals, client, isJson } = readRemote(args, environment, {
    follow: { type: 'boolean', default: false },
  });
  const { id } = takeArguments(positionals, 'id');
  if (!id.startsWith('run_')) {
    if (values.follow) return watchSession(client, id, isJson);
    await showSession(client, id, isJson);
    return 0;
  }
  const found = await client.runs.get(id);
  if (values.follow) {
    return watchRun(
      client,
      { sessionId: found.sessionId, runId: id },
      (signal) => client.runs.follow(id, { signal }),
      isJson,
    );
  }
  if (isJson) writeJson(found);
  else writeLine(describeRun(found));
  return 0;
}

function describeRun({
  id,
  sessionId,
  sessionName,
  agent,
  trigger,
  status,
  reason,
  steps,
  maxSteps,
  error,
  usage: used,
  costUsd,
  requiredActions,
  parent,
  childCount,
  children = [],
}: Run): string {
  const why = error === null ? reason : `${error.code}: ${oneLine(error.message, MAX_ERROR_CHARS)}`;
  const facts = [
    ['run', id],
    ['session', `${sessionId}  ${oneLine(sessionName, 80)}`],
    ['agent', agent],
    ['begun by', trigger],
    ...(parent === null ? [] : [['child of', `${parent.runId} in ${parent.sessionId}`] as const]),
    ['status', why === null ? status : `${status} (${why})`],
    ['work', `${stepsOf(steps, maxSteps)}, ${count(used.totalTokens, 'token')}, ${cost(costUsd)}`],
    ...requiredActions.map((call) => ['waits for', `${call.kind} of ${call.toolName} ${call.id}`]),
    ...children.map((child) => ['child', describeChild(child)]),
    ...(childCount > children.length
      ? [['children', `${childCount} in all: baton sessions --parent ${sessionId}`]]
      : []),
  ] as const;
  return facts.map(([name = '', fact = '']) => `${name.padEnd(10)} ${fact}`).join('\n');
}

/** "2 of 100 steps". A compaction or prune has no limit. */
const stepsOf = (steps: number, maxSteps: number | null): string =>
  maxSteps === null ? count(steps, 'step') : `${steps} of ${count(maxSteps, 'step')}`;

function describeChild({ agent, status, steps, tokens, sessionId }: RunChild): string {
  const used = steps === null || tokens === null ? [] : [count(steps, 'step'), count(tokens, 'token')];
  return [`${agent} ${status}`, ...used, ...(sessionId === null ? [] : [sessionId])].join(', ');
}

async function showSession(client: BatonClient, id: string, isJson: boolean): Promise<void> {
  const [session, context, queue] = await Promise.all([
    client.sessions.get(id),
    client.sessions.context(id),
    readQueue(client, id),
  ]);
  const messages = await readTranscript(client, id);
  if (isJson) return writeJson({ session, context, queue, messages });
  const { agent, status, activeRunId, name, forkedFrom, parentSessionId, usage: used, costUsd, steps } = session;
  writeLine(`session    ${session.id}  ${oneLine(name, 80)}`);
  if (forkedFrom !== null)
    writeLine(`forked     from ${forkedFrom.sessionId} at ${forkedFrom.messageId ?? 'its start'}`);
  if (parentSessionId !== null) writeLine(`child      of ${parentSessionId}`);
  writeLine(`agent      ${agent}, ${context.model}`);
  writeLine(`status     ${status}${activeRunId === null ? '' : ` (${activeRunId})`}`);
  writeLine(`usage      ${count(steps, 'step')}, ${count(used.totalTokens, 'token')}, ${cost(costUsd)}`);
  writeLine(meterLine(context).replace('context ', 'context    '));
  for (const line of showWaiting(queue)) writeLine(line);
  for (const message of messages) writeLine(`\n${describeMessage(message)}`);
}

async function readTranscript(client: BatonClient, id: string): Promise<readonly Message[]> {
  const messages: Message[] = [];
  for (let after: number | null = 0; after !== null; ) {
    const page: MessagePage = await client.messages(id, { after, limit: 200 });
    messages.push(...page.messages);
    after = page.next;
  }
  return messages;
}

function describeMessage({ seq, role, step, parts, finishReason }: Message): string {
  const state = role === 'assistant' && finishReason === null ? ', being written' : '';
  const heading = `#${seq} ${role}${step === null ? '' : `, step ${step}`}${state}`;
  return [heading, ...parts.flatMap(describePart)].join('\n');
}

const indented = (text: string): string => printable(text).replaceAll(/^/gm, '  ');

function describePart(part: Part): string[] {
  switch (part.type) {
    case 'text':
      return [indented(part.text)];
    case 'reasoning':
      return part.text === '' ? [] : [indented(`thinks: ${part.text}`)];
    case 'compaction':
      return [indented(`summary: ${part.text}`)];
    case 'file':
      return [indented(`file ${[part.filename, part.mediaType, part.url.replace('@blob:', '')].join(' ').trim()}`)];
    case 'source':
      return [indented(`source ${part.title ?? ''} ${part.url ?? ''}`)];
    case 'tool': {
      const { toolName, input, state, output } = part;
      const value = output === undefined || output.type === 'execution-denied' ? '' : output.value;
      const result = typeof value === 'string' ? value : JSON.stringify(value);
      return [indented(`→ ${toolName} ${shortArguments(input)}`), indented(`  ${state} ${shortResult(result)}`)];
    }
    default:
      return [];
  }
}
