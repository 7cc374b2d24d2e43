import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { PNG, PNG_BASE64 } from '../support/png.ts';
import { startTestService } from '../support/service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { serveEverything, serveFilesystem, TRANSPORTS } from '../tools/reference-servers.ts';

const serverSettings = { timeoutMs: 60_000, trust: false };

describe.each(TRANSPORTS)('a session with the reference servers over %s', (transport) => {
  it('reads and writes files with them, and shows the model their images', async () => {
    await using folder = await temporaryFolder();
    const at = (name: string) => ({ path: path.join(folder.path, name) });
    writeFileSync(at('notes.txt').path, 'The door is green.');
    writeFileSync(at('dot.png').path, PNG);
    await using files = await serveFilesystem(transport, folder.path);
    await using all = await serveEverything(transport);
    await using service = await startTestService({ backend: 'postgres' });
    const { simulator } = service;
    simulator.script('test', [
      { toolCalls: [{ name: 'files__read_text_file', input: at('notes.txt') }] },
      {
        toolCalls: [
          { name: 'files__read_media_file', input: at('dot.png') },
          { name: 'all__get-tiny-image', input: {} },
          { name: 'files__write_file', input: { ...at('door.txt'), content: 'green' } },
          { name: 'files__read_text_file', input: { path: '/etc/hostname' } },
        ],
      },
      { text: 'Done.' },
    ]);
    const session = await service.createSession({
      mcpServers: { files: { ...files.config, ...serverSettings }, all: { ...all.config, ...serverSettings } },
      tools: [{ mcp: 'files' }, { mcp: 'all', include: ['get-tiny-image'] }],
    });
    await service.startWorker();
    const { runId } = await service.send(session, 'What colour is the door?');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 3 });

    const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
    const calls = messages.flatMap(({ parts }) => parts).filter((part) => part.type === 'tool');
    const image = { type: 'file', mediaType: 'image/png', url: expect.stringMatching(/^@blob:blob_/) };
    expect(calls).toMatchObject([
      { state: 'completed', output: { type: 'text', value: 'The door is green.' } },
      { state: 'completed', output: { type: 'content', value: [{ ...image, sizeBytes: PNG.byteLength }] } },
      { state: 'completed', output: { type: 'content', value: [expect.anything(), image, expect.anything()] } },
      { state: 'completed' },
      { state: 'error', output: { value: expect.stringContaining('denied') } },
    ]);
    const [, second, third] = simulator.requests;
    expect(second?.request?.messages.at(-1)?.toolResults).toMatchObject([{ output: 'The door is green.' }]);
    const shown = [...(third?.rawBody ?? '').matchAll(/"image_url":"data:image\/png;base64,([^"]+)"/g)];
    expect(shown.map(([, base64]) => base64 === PNG_BASE64)).toEqual([true, false]);
    expect(third?.rawBody?.split(PNG_BASE64).length, 'its bytes are sent once').toBe(2);
    expect(simulator.requests.flatMap(({ violations }) => violations)).toEqual([]);
  });
});
