import path from 'node:path';
import { build } from 'esbuild';
import { describe, expect, it } from 'vitest';
import type * as client from '../../src/client/client.ts';
import { findChromium, startBrowser } from '../examples/browser.ts';
import { startChatService } from '../facades/ui-chat-fixture.ts';
import { eventually } from '../support/eventually.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';

const chromium = findChromium();

/** Bundles the client as a script that sets `baton`. */
async function bundleClient(): Promise<string> {
  const entry = path.join(import.meta.dirname, '../../src/client/client.ts');
  const options = { bundle: true, write: false, format: 'iife', globalName: 'baton', platform: 'browser' } as const;
  const { outputFiles } = await build({ entryPoints: [entry], ...options });
  return outputFiles[0]?.text ?? '';
}

describe.runIf(chromium !== null)('the client in a browser', () => {
  it('sends, follows a run that is cut off, waits, and tells errors by their codes', async () => {
    await using started = await startChatService([{ name: 'talker' }]);
    // The service's CSP forbids foreign scripts, and CORS forbids other origins to read its answers.
    await using browser = await startBrowser(chromium ?? '', { bypassCSP: true });
    const text = 'A streamed answer with an emoji 🎻 in it.';
    const gates = { afterChunks: { count: 4, gate: 'middle' } };
    started.service.simulator.script('talker', [{ text, chunkChars: 3, gates }]);
    const page = await browser.context.newPage();
    await using proxy = await startTcpProxy(started.url);
    const baseUrl = new URL(proxy.via(started.url)).origin;
    await page.goto(`${baseUrl}/docs`);
    await page.addScriptTag({ content: await bundleClient() });
    const talking = page.evaluate(async (url) => {
      const { createClient } = (globalThis as unknown as { baton: typeof client }).baton;
      const inPage = createClient({ baseUrl: url });
      const session = await inPage.sessions.create({ agent: 'talker' });
      const { runId } = await inPage.send(session.id, 'Talk');
      const said: string[] = [];
      let connections = 0;
      for await (const event of inPage.runs.follow(runId, { after: 0 })) {
        if (event.type === 'llm:chunk') said.push(event.data.content);
        if (event.type === 'session:snapshot') connections += 1;
        Object.assign(globalThis, { seen: { connections, pieces: said.length } });
      }
      const { status } = await inPage.runs.wait(runId);
      const refused = await inPage.sessions.get('nobody').catch((error) => error.code);
      return { said: said.join(''), status, refused };
    }, baseUrl);
    await started.service.simulator.gate('middle').reached;
    const sees = (what: string) => eventually(async () => await page.evaluate(`globalThis.seen?.${what}`), what);
    await sees('pieces > 0');
    proxy.cut();
    await sees('connections > 1');
    started.service.simulator.gate('middle').release();
    expect(await talking).toEqual({ said: text, status: 'completed', refused: 'invalid_request' });
  });
});
