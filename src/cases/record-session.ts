import type { BatonClient, Message, Run } from '../client/client.ts';
import { BatonError } from '../domain/errors.ts';
import { type Clean, withoutSecrets } from '../domain/model/secret-fields.ts';
import { isTerminalRun } from '../domain/run/run.ts';
import { type Part, partSchema, type ToolOutput, type UserPart, userPartSchema } from '../domain/transcript/message.ts';
import {
  type Case,
  type CaseEntry,
  type CaseStep,
  type CaseTool,
  MAX_CASE_BYTES,
  newCase,
  type ShownMessage,
} from './case-file.ts';
import { createShownReader } from './shown-request.ts';

const PAGE_SIZE = 200;

/**
 * Makes a case of a session, or of a session up to the end of one of its runs.
 * @param id of the session or the run
 * @param clean removes secrets from texts
 * @throws BatonError `conflict` for a session that cannot be played again, and says why; the errors of the service
 */
export async function recordSession(client: BatonClient, id: string, clean: Clean): Promise<Case> {
  const until = id.startsWith('run_') ? await client.runs.get(id) : null;
  const session = await client.sessions.get(until?.sessionId ?? id);
  const messages = upTo(await readMessages(client, session.id), until);
  const runs = await readRuns(client, messages);
  const end = [...runs.values()].at(-1);
  if (end === undefined)
    throw new BatonError('conflict', `${session.id} has no run yet, so there is nothing to record`);
  const costs = await readCosts(client, [...runs.keys()]);
  const recorder = createRecorder(client, [...runs.keys()], costs, clean);
  for (const message of messages) await recorder.add(message);
  const { entries, toolLists, agents } = recorder;
  if (agents.size > 1) refuse(`the session changed its agent: ${[...agents].join(', ')}`);
  const recorded = newCase({
    name: session.title === null ? session.id : clean(session.title),
    agent: [...agents][0] ?? session.agent,
    overrides: withoutSecrets(session.overrides, clean),
    toolLists,
    entries,
    end: { status: end.status, reason: end.reason, error: end.error?.code ?? null },
  });
  const bytes = Buffer.byteLength(JSON.stringify(recorded));
  if (bytes > MAX_CASE_BYTES) refuse(`it has ${bytes} bytes, of at most ${MAX_CASE_BYTES}: record an earlier run`);
  return recorded;
}

function refuse(why: string): never {
  throw new BatonError('conflict', `this cannot be played again: ${why}`);
}

async function readMessages(client: BatonClient, sessionId: string): Promise<Message[]> {
  const messages: Message[] = [];
  for (let after: number | null = 0; after !== null; ) {
    const page: Awaited<ReturnType<BatonClient['messages']>> = await client.messages(sessionId, {
      after,
      limit: PAGE_SIZE,
    });
    messages.push(...page.messages);
    after = page.next;
  }
  return messages;
}

function upTo(messages: readonly Message[], until: Run | null): readonly Message[] {
  if (until === null) return messages;
  const last = messages.findLastIndex(({ runId }) => runId === until.id);
  return messages.slice(0, last + 1);
}

/** The runs of the messages in their order. @throws BatonError `conflict` for one that did not end by itself */
async function readRuns(client: BatonClient, messages: readonly Message[]): Promise<Map<string, Run>> {
  const ids = new Set(messages.flatMap(({ runId, isSummary }) => (runId === null || isSummary ? [] : [runId])));
  const runs = await Promise.all([...ids].map((id) => client.runs.get(id)));
  for (const { id, status } of runs) {
    if (status === 'cancelled' || status === 'failed') refuse(`${id} ${status}: record a run before it`);
    if (!isTerminalRun(status)) refuse(`${id} is ${status}: wait for its end, or record a run before it`);
  }
  return new Map(runs.map((run) => [run.id, run]));
}

/** Costs of the answers, by the ids of their messages. */
export async function readCosts(client: BatonClient, runIds: readonly string[]): Promise<Map<string, number | null>> {
  const costs = new Map<string, number | null>();
  for (const runId of runIds) {
    for (let after: number | null = 0; after !== null; ) {
      const page: Awaited<ReturnType<BatonClient['runs']['steps']>> = await client.runs.steps(runId, {
        after,
        limit: PAGE_SIZE,
      });
      for (const row of page.rows) if (row.kind === 'step') costs.set(row.messageId, row.costUsd);
      after = page.next;
    }
  }
  return costs;
}

function createRecorder(
  client: BatonClient,
  runIds: readonly string[],
  costs: ReadonlyMap<string, number | null>,
  clean: Clean,
) {
  const entries: CaseEntry[] = [];
  const toolLists: CaseTool[][] = [];
  const agents = new Set<string>();
  let lastMessages: readonly ShownMessage[] = [];
  const readShown = createShownReader(client, clean);
  const listOf = (tools: readonly CaseTool[]): number => {
    const listIndex = toolLists.findIndex((list) => JSON.stringify(list) === JSON.stringify(tools));
    return listIndex >= 0 ? listIndex : toolLists.push([...tools]) - 1;
  };
  const requestOf = async (runId: string, step: number): Promise<CaseStep['request']> => {
    const { sha256, agent, tools, messages } = await readShown(runId, step);
    agents.add(agent);
    const different = messages.findIndex((shown, index) => shown.sha256 !== lastMessages[index]?.sha256);
    const keeps = different < 0 ? messages.length : different;
    lastMessages = messages;
    return { sha256, tools: listOf(tools), keeps, adds: messages.slice(keeps) };
  };
  const addStep = async (message: Message): Promise<void> => {
    const { runId, step, model, finishReason, usage, parts } = message;
    // An attempt that broke off is not shown again; the whole answer follows it.
    if (finishReason === null || finishReason === 'error' || finishReason === 'aborted') return;
    const isOwn = runId !== null && step !== null && usage !== null && model !== null;
    if (!isOwn) refuse('it begins with messages of another session: record that one');
    const cleaned = parts.map((part) => toPart(part, clean));
    entries.push({
      type: 'step',
      run: runIds.indexOf(runId) + 1,
      step,
      model,
      request: await requestOf(runId, step),
      parts: await inlineFiles(client, cleaned),
      finishReason: finishReason as CaseStep['finishReason'],
      usage,
      costUsd: costs.get(message.id) ?? null,
    });
  };
  const addUser = async (message: Message): Promise<void> => {
    const parts = message.parts.map((part) => userPartSchema.parse(toPart(part, clean)));
    entries.push({ type: 'user', messages: splitQueued(await inlineFiles(client, parts)) });
  };
  return {
    entries,
    toolLists,
    agents,
    async add(message: Message): Promise<void> {
      if (message.isSummary) {
        const text = message.parts.map((part) => (part.type === 'compaction' ? part.text : '')).join('');
        entries.push({ type: 'summary', text: clean(text) });
      } else if (message.role === 'user') await addUser(message);
      else await addStep(message);
    },
  };
}

/** The fields that only the API adds to a part. */
const OF_THE_API: ReadonlySet<string> = new Set([
  'id',
  'compactedAt',
  'mediaStrippedAt',
  'viewLimitChars',
  'originalTokens',
  'truncated',
  'outputBlobId',
]);
/** The provider's data, sent back to it as it is. */
const AS_IT_IS: ReadonlySet<string> = new Set(['providerMetadata', 'resultProviderMetadata', 'toolCallId']);

function toPart(part: Message['parts'][number], clean: Clean): Part {
  const fields = Object.entries(part).filter(([name]) => !OF_THE_API.has(name));
  const cleaned = fields.map(([name, value]) => [name, AS_IT_IS.has(name) ? value : withoutSecrets(value, clean)]);
  return partSchema.parse(Object.fromEntries(cleaned));
}

/** The queued messages that one step took up, each with its parts. */
function splitQueued(parts: readonly UserPart[]): UserPart[][] {
  const messages: UserPart[][] = [];
  for (const { queuedNo, ...part } of parts) {
    if (queuedNo !== undefined || messages.length === 0) messages.push([]);
    messages.at(-1)?.push(part);
  }
  return messages.length > 0 ? messages : [[{ type: 'text', text: '' }]];
}

const REFERENCE = /^@blob:(blob_[0-9a-f]{32})$/;

/** Puts the bytes of files into their parts, so that a case needs no other file. */
async function inlineFiles<T extends Part>(client: BatonClient, parts: readonly T[]): Promise<T[]> {
  return Promise.all(parts.map((part) => inlinePart(client, part)));
}

async function inlinePart<T extends Part>(client: BatonClient, part: T): Promise<T> {
  if (part.type === 'file') return { ...part, ...(await inlineFile(client, part)) };
  if (part.type !== 'tool' || part.output?.type !== 'content') return part;
  const value = await Promise.all(
    part.output.value.map((item) => (item.type === 'file' ? inlineFile(client, item) : item)),
  );
  const output: ToolOutput = { type: 'content', value };
  return { ...part, output };
}

type File = Readonly<{ mediaType: string; url: string; sizeBytes?: number | undefined }>;

async function inlineFile<T extends File>(client: BatonClient, file: T): Promise<T> {
  const blobId = REFERENCE.exec(file.url)?.[1];
  if (blobId === undefined) return file;
  const bytes = Buffer.from(await (await client.blobs.download(blobId)).arrayBuffer());
  const { sizeBytes: _size, ...rest } = file;
  return { ...rest, url: `data:${file.mediaType};base64,${bytes.toString('base64')}` } as T;
}
