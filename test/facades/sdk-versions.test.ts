import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { UIMessage, UIMessageChunk } from 'ai';
import * as newest from 'ai';
import { beforeAll, describe, expect, test } from 'vitest';
import { createSdkFilter, type SdkVersion, toSdkMessages } from '../../src/facades/ui/sdk-versions.ts';
import type { UiFrame } from '../../src/facades/ui/ui-frame.ts';
import { UI_CHUNKS } from './ui-chunks.ts';

// npm ci --prefix test/facades/chat-versions
const earlier = (name: string): string =>
  path.join(import.meta.dirname, 'chat-versions/node_modules', name, 'dist/index.mjs');

type Package = Pick<typeof newest, 'asSchema' | 'uiMessageChunkSchema'>;
const VERSIONS: readonly Readonly<{ sdk: SdkVersion; from: string | null }>[] = [
  { sdk: 5, from: earlier('ai-5') },
  { sdk: 6, from: earlier('ai-6') },
  { sdk: 7, from: null },
];

const chunksOf = (frames: readonly UiFrame[]): UIMessageChunk[] =>
  frames.flatMap((frame) => ('comment' in frame ? [] : [frame]));

describe.each(VERSIONS.filter(({ from }) => from === null || existsSync(from)))('AI SDK $sdk', ({ sdk, from }) => {
  let reads: (chunk: unknown) => Promise<boolean>;
  beforeAll(async () => {
    const { asSchema, uiMessageChunkSchema }: Package = from === null ? newest : await import(pathToFileURL(from).href);
    const { validate } = asSchema(uiMessageChunkSchema);
    reads = async (chunk) => (await validate?.(JSON.parse(JSON.stringify(chunk))))?.success === true;
  });

  test.each(UI_CHUNKS.map((row) => [row.chunk.type, row] as const))('%s', async (_, { since, chunk, before }) => {
    expect(await reads(chunk)).toBe(since <= sdk);
    const sent = chunksOf(createSdkFilter(sdk)(chunk));
    for (const each of sent) expect(await reads(each)).toBe(true);
    if (since <= sdk) expect(sent).toEqual([chunk]);
    else expect(sent.map(({ type }) => type)).toEqual(before);
  });
});

describe('a page of an earlier version', () => {
  const filtered = (sdk: SdkVersion, chunks: readonly UIMessageChunk[]) =>
    chunksOf(chunks.flatMap(createSdkFilter(sdk)));

  test('has no part that stays open when a step is tried again', () => {
    const begun: UIMessageChunk[] = [
      { type: 'text-start', id: 'a' },
      { type: 'text-end', id: 'a' },
      { type: 'reasoning-start', id: 'b' },
      { type: 'tool-input-start', toolCallId: 'call_a', toolName: 'look' },
      { type: 'tool-input-start', toolCallId: 'call_b', toolName: 'look' },
      { type: 'tool-input-available', toolCallId: 'call_b', toolName: 'look', input: {} },
    ];
    expect(filtered(6, [...begun, { type: 'reset-step' }, { type: 'reset-step' }]).slice(begun.length)).toMatchObject([
      { type: 'reasoning-end', id: 'b' },
      { type: 'tool-input-error', toolCallId: 'call_a' },
      { type: 'data-reset-step' },
      { type: 'data-reset-step' },
    ]);
  });

  test('is told in data parts what its messages have no parts for', () => {
    const call = { type: 'tool-pay', toolCallId: 'call_a', input: {} } as const;
    const parts: UIMessage['parts'] = [
      { type: 'steering-message', id: 'msg_a', parts: [{ type: 'text', text: 'Faster' }] },
      { ...call, state: 'approval-requested', approval: { id: 'call_a.4' } },
      { ...call, state: 'approval-responded', approval: { id: 'call_a', approved: true } },
      { ...call, state: 'output-denied', approval: { id: 'call_a', approved: false } },
    ];
    const messages: UIMessage[] = [{ id: 'run_a', role: 'assistant', parts }];
    const steered = { type: 'data-steering-message', id: 'msg_a', data: { parts: [{ type: 'text', text: 'Faster' }] } };
    expect(toSdkMessages(messages, 7)).toEqual(messages);
    expect(toSdkMessages(messages, 6)[0]?.parts).toEqual([steered, ...parts.slice(1)]);
    expect(toSdkMessages(messages, 5)[0]?.parts).toEqual([
      steered,
      { ...call, state: 'input-available' },
      {
        type: 'data-approval',
        id: 'call_a.4',
        data: { approvalId: 'call_a.4', toolCallId: 'call_a', text: expect.any(String) },
      },
      { ...call, state: 'input-available' },
      { ...call, state: 'output-error', errorText: expect.any(String) },
    ]);
  });
});

test('docs/facades.md names the versions that the tests use', async () => {
  const read = (file: string) => readFile(path.join(import.meta.dirname, file), 'utf8');
  const [page, own, others] = await Promise.all(
    ['../../docs/facades.md', '../../package.json', 'chat-versions/package.json'].map(read),
  );
  const { dependencies, devDependencies } = JSON.parse(own ?? '');
  const pinned: Record<string, string> = JSON.parse(others ?? '').devDependencies;
  const versionOf = (name: string): string => pinned[name]?.split('@').at(-1) ?? '';
  expect(page).toContain(
    `\`ai\` ${versionOf('ai-5')}, ${versionOf('ai-6')} and ${dependencies.ai}, ` +
      `and with \`@ai-sdk/react\` ${versionOf('ai-react-5')}, ${versionOf('ai-react-6')} and ${devDependencies['@ai-sdk/react']}.`,
  );
});
