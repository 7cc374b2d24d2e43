import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import * as path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { answerBody } from '../../src/api/tool-calls.ts';
import { MAX_REQUEST_MEDIA_BYTES, MODEL_PROTOCOLS, PROTOCOL_MEDIA } from '../../src/domain/model/shown-media.ts';
import { MAX_BLOB_BYTES, MAX_CONTENT_BODY_BYTES, MAX_MESSAGE_FILES } from '../../src/domain/tunables.ts';
import { createModuleLoader } from '../../src/tools/load-module.ts';
import { PNG, PNG_BASE64 } from '../support/png.ts';
import { startTestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const docs = await readFile(path.join(ROOT, 'docs/media.md'), 'utf8');

it('docs/media.md shows a tool whose pictures a model is shown', async () => {
  await using folder = await temporaryFolder();
  await mkdir(path.join(folder.path, 'node_modules'));
  await symlink(path.join(ROOT, 'node_modules/zod'), path.join(folder.path, 'node_modules/zod'));
  await writeFile(path.join(folder.path, 'tool.ts'), /```ts\n([\s\S]*?)```/.exec(docs)?.[1] ?? '');
  const picture = `export const takePicture = async (_url: string) => Buffer.from('${PNG_BASE64}', 'base64');`;
  await writeFile(path.join(folder.path, 'take-picture.ts'), picture);
  const tools = await createModuleLoader(folder.path, 'workspace')('./tool.ts', 'tester', 'tools.0.module');
  await using service = await startTestService({ backend: 'postgres', tools });
  await service.startWorker();
  const call = { name: 'screenshot', input: { url: 'https://example.com' } };
  service.simulator.script('*', [{ toolCalls: [call] }, { text: 'I see.' }]);
  const { runId } = await service.send(await service.createSession(), 'Look');
  expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
  expect(service.simulator.requests.at(-1)?.rawBody).toContain(PNG_BASE64);
  const { db } = service.deps;
  const blobs = await db.selectFrom('blobs').select(['media_type', 'bytes']).execute();
  expect(blobs).toEqual([{ media_type: 'image/png', bytes: Buffer.from(PNG) }]);
});

it('docs/media.md shows an output of a client that is taken', () => {
  const given: unknown = JSON.parse((/```json\n([\s\S]*?)```/.exec(docs)?.[1] ?? '').replace('01a2…', '0'.repeat(32)));
  const file = { type: 'file', mediaType: '', url: `@blob:blob_${'0'.repeat(32)}` };
  expect(answerBody.parse(given)).toEqual({
    output: { kind: 'content', content: [{ type: 'text', text: 'The page:' }, file] },
  });
});

it('docs/media.md names the limits that hold, and what protocols carry', () => {
  const inMiB = (bytes: number): string => `${bytes / 1_048_576} MiB`;
  expect(docs).toContain(`A file has at most ${inMiB(MAX_BLOB_BYTES)}, a message at most ${MAX_MESSAGE_FILES} files.`);
  expect(docs).toContain(`base64, in a body of at most ${inMiB(MAX_CONTENT_BODY_BYTES)}`);
  expect(docs).toContain(`A request carries at most ${inMiB(MAX_REQUEST_MEDIA_BYTES)} of files`);
  const rows = [...docs.matchAll(/^\| (?:OpenAI|Anthropic)[^|]* \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$/gm)];
  const named = (types: readonly string[]): string =>
    types.length === 0 ? '–' : types.includes('application/pdf') ? 'images, PDF' : 'images';
  expect(rows.map(([, ...cells]) => cells)).toEqual(
    MODEL_PROTOCOLS.map((protocol) => {
      const { user, toolResults, fetched } = PROTOCOL_MEDIA[protocol];
      return [named(user), named(toolResults), named(fetched)];
    }),
  );
});
