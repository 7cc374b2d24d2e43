import { existsSync, readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createContext, runInContext } from 'node:vm';
import { transform } from 'esbuild';
import { parseSync } from 'oxc-parser';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type * as client from '../../src/client/client.ts';
import { startChatService } from '../facades/ui-chat-fixture.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { COMPILER, CONSUMERS_NODE, complaints, run } from './consumer.ts';
import { installedIn } from './installed.ts';
import { packAll } from './packed.ts';

const MAX_BYTES = 30_000;

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let home: string;
/** The path of the file that `npm pack` made. */
let tarball: string;

/** The package as `npm pack` makes it, beside a consumer's program. */
beforeAll(async () => {
  folder = await temporaryFolder();
  tarball = (await packAll()).client;
  home = path.join(folder.path, 'node_modules/@baton-run/client');
  await mkdir(home, { recursive: true });
  await run('tar', ['-xzf', tarball, '-C', home, '--strip-components=1']);
  await writeFile(path.join(folder.path, 'package.json'), '{"type": "module"}');
}, 400_000);
afterAll(() => folder[Symbol.asyncDispose]());

const readCode = (): string => readFileSync(path.join(home, 'client.js'), 'utf8');

it('@baton-run/client is one small module that imports nothing, and has the version of Baton', () => {
  const manifest = JSON.parse(readFileSync(path.join(home, 'package.json'), 'utf8'));
  const { version } = JSON.parse(readFileSync(path.join(import.meta.dirname, '../../package.json'), 'utf8'));
  expect(manifest).toMatchObject({ name: '@baton-run/client', version, license: 'MIT', engines: { node: '>=20.3' } });
  for (const name of ['private', 'dependencies', 'peerDependencies', 'optionalDependencies', 'scripts']) {
    expect(manifest).not.toHaveProperty(name);
  }
  const code = readCode();
  expect(Buffer.byteLength(code)).toBeLessThanOrEqual(MAX_BYTES);
  const { module } = parseSync('client.js', code);
  expect([...module.staticImports, ...module.dynamicImports]).toEqual([]);
  expect(code).not.toMatch(/\b(?:require|process|Buffer)\b[.(]/);
});

it('@baton-run/client has maps of code and of types, each of which leads to a source in the package', () => {
  for (const file of ['client.js.map', 'types/client.d.ts.map']) {
    const { sourceRoot = '', sources } = JSON.parse(readFileSync(path.join(home, file), 'utf8'));
    expect(sources.length).toBeGreaterThan(0);
    for (const source of sources) {
      expect(existsSync(path.join(home, path.dirname(file), sourceRoot, source)), source).toBe(true);
    }
  }
});

it('@baton-run/client is the only package that its installation brings', async () => {
  await using consumer = await temporaryFolder();
  await writeFile(path.join(consumer.path, 'package.json'), '{"private": true}');
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', tarball], { cwd: consumer.path });
  expect(await installedIn(consumer.path)).toEqual([expect.objectContaining({ name: '@baton-run/client' })]);
});

it('@baton-run/client has types that a strict consumer can check without the types of Node', async () => {
  const program = `
    import { BatonError, createClient, type Run } from '@baton-run/client';
    const client = createClient({ baseUrl: 'http://127.0.0.1:9' });
    export const run: Promise<Run> = client.runs.get('run_1');
    export const isOurs = (error: unknown): boolean => error instanceof BatonError && error.code === 'not_found';`;
  const wrong = '\n    export const wrong: Promise<Run> = client.runs.get(7);';
  expect(await complaints(folder.path, program + wrong, COMPILER)).toEqual(['TS2345']);
});

/** A conversation by a client. It returns the text, the end of the run, and the code of an error. */
const CONVERSATION = `async ({ BatonError, createClient }, baseUrl) => {
  const client = createClient({ baseUrl });
  const { id } = await client.sessions.create({ agent: 'talker' });
  const { runId } = await client.send(id, 'Talk');
  let said = '';
  for await (const event of client.events(id, { after: 0 })) {
    if (event.type === 'llm:chunk') said += event.data.content;
    if (event.type === 'run:completed') break;
  }
  const { text, run } = await client.runs.result(runId);
  const refused = await client.sessions.get('ses_nobody').catch((error) => error instanceof BatonError && error.code);
  return { said, text, status: run.status, refused };
}`;
const TOLD = { said: 'Hello there 🎻', text: 'Hello there 🎻', status: 'completed', refused: 'invalid_request' };

it("@baton-run/client talks to the service from the machine's own Node", async () => {
  await using started = await startChatService([{ name: 'talker' }]);
  started.service.simulator.script('talker', [{ text: 'Hello there 🎻', chunkChars: 3 }]);
  await writeFile(
    path.join(folder.path, 'talk.js'),
    `import * as baton from '@baton-run/client';
     const told = await (${CONVERSATION})(baton, ${JSON.stringify(started.url)});
     console.log(JSON.stringify({ told, node: process.versions.node }));`,
  );
  const { stdout } = await run(CONSUMERS_NODE, ['talk.js'], { cwd: folder.path });
  const { told, node } = JSON.parse(stdout);
  process.stdout.write(`tests: @baton-run/client ran on Node ${node}\n`);
  expect(told).toEqual(TOLD);
});

/** The web platform as runtimes at the edge have it: no `process`, no `Buffer`, no modules of Node. */
const EDGE = {
  ...{ AbortController, AbortSignal, Headers, ReadableStream, Request, Response, TextDecoder, TextEncoder },
  ...{ URL, URLSearchParams, clearTimeout, crypto, fetch, performance, setTimeout },
};

it('@baton-run/client talks to the service from a runtime that has nothing of Node', async () => {
  await using started = await startChatService([{ name: 'talker' }]);
  started.service.simulator.script('talker', [{ text: 'Hello there 🎻', chunkChars: 3 }]);
  const { code } = await transform(readCode(), { format: 'iife', globalName: 'baton' });
  const edge = createContext({ ...EDGE });
  runInContext(`${code}; globalThis.baton = baton;`, edge);
  const talk: (baton: typeof client, url: string) => Promise<unknown> = runInContext(`(${CONVERSATION})`, edge);
  const told = await talk(runInContext('baton', edge), started.url);
  expect(JSON.parse(JSON.stringify(told))).toEqual(TOLD);
});
