import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { UIMessage } from 'ai';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';

const PAGE = path.join(import.meta.dirname, '../../examples/chat/page');
const ENTRY = `
  import { createElement } from 'react';
  import { renderToStaticMarkup } from 'react-dom/server';
  import { MessageView } from './message-view.tsx';
  export const show = (message) => renderToStaticMarkup(createElement(MessageView, { message, isQueued: false }));
`;

const stack = new AsyncDisposableStack();
let show: (message: UIMessage) => string;

/** The page's own component, without a browser. */
beforeAll(async () => {
  const outfile = path.join(stack.use(await temporaryFolder()).path, 'show.cjs');
  const { outputFiles } = await build({
    stdin: { contents: ENTRY, resolveDir: PAGE, loader: 'tsx' },
    bundle: true,
    write: false,
    platform: 'node',
    format: 'cjs',
    jsx: 'automatic',
  });
  await writeFile(outfile, outputFiles[0]?.contents ?? '');
  ({ show } = (await import(pathToFileURL(outfile).href)).default);
});
afterAll(() => stack.disposeAsync());

it('says of an answer that was stopped that it was, and of no other one', () => {
  const answer = (metadata?: object): UIMessage => ({
    id: 'run_1',
    role: 'assistant',
    parts: [{ type: 'text', text: 'a b c d' }],
    ...(metadata !== undefined && { metadata }),
  });
  const text = '<div class="text"><p>a b c d</p></div>';
  const stopped = `<article class="assistant">${text}<span class="badge stopped">stopped</span></article>`;
  expect(show(answer({ status: 'cancelled', queue: { waiting: 0 } }))).toBe(stopped);
  for (const other of [answer(), answer({}), answer({ status: 'completed' }), answer({ status: 'failed' })]) {
    expect(show(other)).toBe(`<article class="assistant">${text}</article>`);
  }
});
