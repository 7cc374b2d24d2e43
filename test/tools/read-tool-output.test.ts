import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import type { Json, Part, ToolOutput } from '../../src/domain/transcript/message.ts';
import type { ToolCallState } from '../../src/domain/transcript/tool-call.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { Db } from '../../src/store/db/database.ts';
import { toJson } from '../../src/store/db/json.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { attachBlobs, bytesBlob, textBlob } from '../../src/store/transcript/blobs.ts';
import { createSessionTools } from '../../src/tools/session-tools.ts';
import type { ToolContext } from '../../src/tools/tool.ts';
import { createTestDatabase } from '../support/postgres.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = database.db;
});
afterAll(() => database[Symbol.asyncDispose]());

async function newSession(): Promise<string> {
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: {} };
  return (await insertSession(db, { id: newId(), tenantId: 'default', ...agent, title: null, metadata: {} })).id;
}

type Call = Readonly<{ seq: number; output?: ToolOutput; input?: Json; toolName?: string; state?: ToolCallState }>;

async function addCall(session: string, { seq, output, input = {}, toolName = 'look', ...call }: Call, whole?: string) {
  const id = newId();
  const blob = whole === undefined ? null : textBlob(newId(), whole);
  if (blob !== null) {
    const { id: blobId, sha256, mediaType, bytes } = blob;
    const row = { id: blobId, sha256, media_type: mediaType, size_bytes: bytes.length, bytes };
    await db.insertInto('blobs').values(row).execute();
    await db.insertInto('blob_refs').values({ blob_id: blobId, session_id: session }).execute();
  }
  const content = {
    type: 'tool',
    toolCallId: 'call',
    toolName,
    input,
    ...(output !== undefined && { output }),
    ...(blob !== null && { outputBlobId: formatId('blob', blob.id) }),
  };
  await db.insertInto('messages').values({ id, session_id: session, seq, role: 'assistant', metadata: '{}' }).execute();
  const state = call.state ?? (output === undefined ? 'pending' : 'completed');
  const part = { message_id: id, idx: 1, session_id: session, type: 'tool' as const, tool_name: toolName, state };
  await db
    .insertInto('parts')
    .values({ ...part, content: toJson(content) })
    .execute();
}

async function say(session: string, seq: number, parts: readonly Part[], more = {}): Promise<void> {
  const id = newId();
  const message = { id, session_id: session, seq, role: 'user' as const, metadata: '{}', ...more };
  await db.insertInto('messages').values(message).execute();
  const rows = parts.map((part, idx) => ({
    message_id: id,
    idx,
    session_id: session,
    type: part.type,
    content: toJson(part),
  }));
  await db.insertInto('parts').values(rows).execute();
}

/** A file of a user whose bytes the session has. */
async function fileOf(session: string, filename: string, mediaType: string, content: string): Promise<Part> {
  const blob = bytesBlob(newId(), mediaType, Buffer.from(content));
  const [kept] = await attachBlobs(db, { sessionId: session }, [blob]);
  return { type: 'file', mediaType, filename, url: `@blob:${formatId('blob', kept?.id ?? '')}` };
}

async function give(
  name: string,
  session: string,
  input: unknown,
  context: Partial<ToolContext> = {},
): Promise<unknown> {
  const tool = createSessionTools(db).find((each) => each.name === name);
  return tool?.execute(input, {
    signal: new AbortController().signal,
    callKey: 'key',
    toolCallId: 'call',
    tenantId: 'default',
    sessionId: formatId('session', session),
    runId: formatId('run', newId()),
    ...context,
  });
}
const use = async (...call: Parameters<typeof give>): Promise<string> => String(await give(...call));
const read = (session: string, input: unknown, context?: Partial<ToolContext>) =>
  use('read_tool_output', session, input, context);

const lines = (count: number): string => Array.from({ length: count }, (_, index) => `line ${index + 1}`).join('\n');
const text = (value: string): ToolOutput => ({ type: 'text', value });

/** The output put together again from its pages, by the offsets that they name. */
async function readAll(
  session: string,
  id: string,
  context?: Partial<ToolContext>,
): Promise<{ text: string; pages: number }> {
  const rows: string[] = [];
  let pages = 0;
  for (let offset: number | null = 1; offset !== null; pages++) {
    const page = await read(session, { id, offset }, context);
    const next = /go on with offset (\d+)\]$/.exec(page);
    rows.push(...page.split('\n').slice(0, -1));
    offset = next === null ? null : Number(next[1]);
  }
  const joined = rows.map((row) => row.replace(/^\d+\+\t/, '').replace(/^\d+\t/, '\n')).join('');
  return { text: joined.slice(1), pages };
}

describe('read_tool_output', () => {
  it('reads the whole of an output that was cut, page by page, without a gap', async () => {
    const session = await newSession();
    const whole = `${lines(5_000)}\n${'{"json":"in one line"},'.repeat(400)}\nend`;
    await addCall(session, { seq: 7, output: text('line 1\n… [cut] …\nend') }, whole);
    expect(await read(session, { id: 'out_7_1', offset: 3, limit: 2 })).toBe(
      '3\tline 3\n4\tline 4\n[lines 3 to 4 of 5020; go on with offset 5]',
    );
    const all = await readAll(session, 'out_7_1');
    expect(all.text).toBe(whole);
    expect(all.pages).toBeGreaterThan(3);
  });

  it('makes its pages as small as the model is shown whole', async () => {
    const session = await newSession();
    const whole = `${lines(300)}\n${'設計書'.repeat(2_000)}`;
    await addCall(session, { seq: 1, output: text('…') }, whole);
    const shown: number[] = [];
    const isShownWhole = (page: string) => page.length <= 900;
    const all = await readAll(session, 'out_1_1', { isShownWhole });
    expect(all.text).toBe(whole);
    expect(all.pages).toBeGreaterThan(8);
    shown.push((await read(session, { id: 'out_1_1' }, { isShownWhole })).length);
    expect(Math.max(...shown)).toBeLessThanOrEqual(900);
  });

  it('shows where something is found, with the lines around it, and from where to search on', async () => {
    const session = await newSession();
    await addCall(session, { seq: 1, output: text('…') }, lines(100).replaceAll(/line (40|42|80)$/gm, 'a NEEDLE here'));
    expect(await read(session, { id: 'out_1_1', search: 'needle', limit: 2 })).toBe(
      [
        ' 38\tline 38',
        ' 39\tline 39',
        '>40\ta NEEDLE here',
        ' 41\tline 41',
        '>42\ta NEEDLE here',
        ' 43\tline 43',
        ' 44\tline 44',
        '[2 matches of 100 lines; more from offset 80 on]',
      ].join('\n'),
    );
    const rest = await read(session, { id: 'out_1_1', search: '^a n.*e$', offset: 42 });
    expect(rest.split('\n').filter((row) => /^>|^--|^\[/.test(row))).toEqual([
      '>42\ta NEEDLE here',
      '--',
      '>80\ta NEEDLE here',
      '[2 matches of 100 lines]',
    ]);
    expect(await read(session, { id: 'out_1_1', search: 'nowhere', offset: 9 })).toBe('[no match in lines 9 to 100]');
  });

  it('ends a catastrophic expression in time', async () => {
    const session = await newSession();
    await addCall(session, { seq: 1, output: text('…') }, 'a'.repeat(50_000));
    await expect(read(session, { id: 'out_1_1', search: '(a+)+$b' })).rejects.toThrow('took too long');
  });

  it('reads what the view shows only a placeholder of: text, JSON, errors and nothing', async () => {
    const session = await newSession();
    await addCall(session, { seq: 1, output: text('plain') });
    await addCall(session, { seq: 2, output: { type: 'json', value: { a: [1, 2] } } });
    await addCall(session, { seq: 3, output: { type: 'error-text', value: 'no luck' }, state: 'error' });
    await addCall(session, { seq: 4, output: text('') });
    await db.updateTable('parts').set({ compacted_at: new Date() }).where('session_id', '=', session).execute();
    const outputs = await Promise.all([1, 2, 3, 4].map((seq) => read(session, { id: `out_${seq}_1` })));
    expect(outputs.map((output) => output.split('\n')[0])).toEqual([
      '1\tplain',
      '1\t{"a":[1,2]}',
      '1\tno luck',
      '[empty]',
    ]);
  });

  it('says clearly what it cannot read: no such id, another session, no output yet, beyond the end', async () => {
    const [session, other] = [await newSession(), await newSession()];
    await addCall(session, { seq: 1 });
    await addCall(session, { seq: 2, output: text('a\nb') }, 'secret\nlines');
    const failures: [string, unknown, string, string][] = [
      [session, { id: 'out_9_1' }, 'not_found', 'nothing under the id "out_9_1"'],
      [session, { id: 'out_2_0' }, 'not_found', 'nothing under the id "out_2_0"'],
      [session, { id: 'call_abc' }, 'not_found', 'nothing under the id "call_abc"'],
      [other, { id: 'out_2_1' }, 'not_found', 'nothing under the id "out_2_1"'],
      [session, { id: 'msg_9' }, 'not_found', 'nothing under the id "msg_9"'],
      [other, { id: 'msg_2' }, 'not_found', 'nothing under the id "msg_2"'],
      [session, { id: 'file_2_1' }, 'not_found', 'nothing under the id "file_2_1"'],
      [session, { id: 'out_1_1' }, 'conflict', 'has no output yet'],
      [session, { id: 'out_2_1', offset: 3 }, 'invalid_request', 'only 2 lines'],
      [session, { id: 'out_2_1', offset: 0 }, 'invalid_request', 'offset'],
      [session, { ref: 'out_2_1' }, 'invalid_request', 'ref'],
    ];
    for (const [where, input, code, message] of failures) {
      const failure: unknown = await read(where, input).catch((error: unknown) => error);
      expect(failure).toMatchObject({ code, message: expect.stringContaining(message) });
    }
  });

  it('shows what was kept in the part when the blob belongs to another session', async () => {
    const [session, other] = [await newSession(), await newSession()];
    await addCall(session, { seq: 1, output: text('head … tail') }, 'the whole');
    await db.updateTable('blob_refs').set({ session_id: other }).where('session_id', '=', session).execute();
    expect(await read(session, { id: 'out_1_1' })).toContain('head … tail');
  });
});

describe('read_tool_output of what a user said', () => {
  it('reads a message whole, and names what it holds beside text', async () => {
    const session = await newSession();
    const task = `BEGIN ${lines(3_000)} END`;
    await say(session, 1, [{ type: 'text', text: task }, await fileOf(session, 'spec.txt', 'text/plain', 'the spec')]);
    const all = await readAll(session, 'msg_1');
    expect(all.text).toBe(`${task}\n\n[attached text/plain: spec.txt; id file_1_1]`);
    await addCall(session, { seq: 2, output: text('found') });
    expect(await read(session, { id: 'msg_2' })).toContain('[call of look; its output: out_2_1]');
  });

  it('reads a file that is text by its lines, and has any other shown again', async () => {
    const session = await newSession();
    const spec = await fileOf(session, 'spec.txt', 'text/plain', lines(50));
    await say(session, 1, [spec, await fileOf(session, 'plan.png', 'image/png', 'pixels')]);
    expect(await read(session, { id: 'file_1_0', search: 'line 33' })).toContain('>33\tline 33');
    expect(await give('read_tool_output', session, { id: 'file_1_1' })).toMatchObject({
      type: 'content',
      value: [
        { type: 'text' },
        { type: 'file', mediaType: 'image/png', filename: 'plan.png', data: { data: Buffer.from('pixels') } },
      ],
    });
    const address = { type: 'file', mediaType: 'image/png', url: 'https://example.org/a.png' } as const;
    await say(session, 2, [address]);
    expect(await give('read_tool_output', session, { id: 'file_2_0' })).toMatchObject({
      value: [{}, { data: { type: 'url', url: address.url } }],
    });
  });

  it('lists all of it, the newest first, without summaries and what was superseded', async () => {
    const [session, other] = [await newSession(), await newSession()];
    await say(session, 1, [{ type: 'text', text: 'Port the\nparser.' }, await fileOf(session, 'a', 'text/plain', 'a')]);
    await say(session, 3, [{ type: 'text', text: 'x'.repeat(500) }]);
    await say(session, 4, [{ type: 'text', text: 'gone' }], { superseded: true });
    await say(session, 5, [{ type: 'compaction', text: 'S' }], { is_summary: true });
    await say(other, 1, [{ type: 'text', text: 'theirs' }]);
    expect((await read(session, { id: 'user_messages' })).split('\n')).toEqual([
      `1\tmsg_3: ${'x'.repeat(160)} … (500 characters)`,
      '2\tmsg_1: Port the parser. [1 file attached]',
      '[lines 1 to 2 of 2]',
    ]);
  });
});

describe('a text as a blob', () => {
  it('is kept byte for byte, apart from halves of characters, and known by its content', () => {
    const [a, b] = [textBlob(newId(), 'a\u0000b\r\n😀'), textBlob(newId(), 'a\u0000b\r\n😀')];
    expect(a.bytes.toString('utf8')).toBe('a\u0000b\r\n😀');
    expect(a.sha256.equals(b.sha256)).toBe(true);
    expect(textBlob(newId(), '\uD83D').bytes.toString('utf8')).toBe('\uFFFD');
  });

  it('is head and tail of one that is too long, and says so', () => {
    const kept = textBlob(newId(), `HEAD${'x'.repeat(6_000_000)}TAIL`).bytes.toString('utf8');
    expect(kept.length).toBeLessThanOrEqual(5_000_000);
    expect(kept).toMatch(/^HEADx+\n… \[\d+ of 6000008 characters cut out: too long to be kept\] …\nx+TAIL$/);
  });
});

describe('list_touched_files', () => {
  it('lists what the calls of the session touched, the last one first, in pages', async () => {
    const [session, other] = [await newSession(), await newSession()];
    await addCall(session, { seq: 1, toolName: 'read_file', input: { path: 'a.ts' }, output: text('a') });
    await addCall(session, { seq: 2, toolName: 'edit_file', input: { path: 'b.ts' }, output: text('b') });
    await addCall(session, { seq: 3, toolName: 'read_file', input: { path: 'c.ts' }, output: text('c') });
    await addCall(other, { seq: 1, toolName: 'read_file', input: { path: 'theirs.ts' }, output: text('d') });
    const list = (input: unknown, context?: Partial<ToolContext>) => use('list_touched_files', session, input, context);
    expect(await list({})).toBe('read c.ts\nedited b.ts\nread a.ts\n[1 to 3 of 3]');
    expect(await list({ edited: true })).toBe('edited b.ts\n[1 to 1 of 1]');
    const isShownWhole = (page: string) => page.length < 60;
    expect(await list({ offset: 2 }, { isShownWhole })).toBe('edited b.ts\nread a.ts\n[2 to 3 of 3]');
    expect(await list({}, { isShownWhole: () => false })).toBe('read c.ts\n[1 to 1 of 3; go on with offset 2]');
    await expect(list({ offset: 4 })).rejects.toThrow('only 3');
    expect(await use('list_touched_files', await newSession(), {})).toBe('[none]');
  });
});
