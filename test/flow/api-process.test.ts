import { describe, expect, it } from 'vitest';
import { availableBackends } from '../support/backends.ts';
import { startTestService } from '../support/service.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

async function call(url: string, body?: object): Promise<Record<string, unknown>> {
  const init =
    body === undefined
      ? {}
      : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(url, init);
  expect(response.ok, `${url}: ${response.status}`).toBe(true);
  return (await response.json()) as Record<string, unknown>;
}

type Frame = {
  type: string;
  seq?: number;
  data: { content?: string; inFlight?: { chunks: { content: string }[] } | null };
};

async function* framesOf(url: string): AsyncGenerator<Frame> {
  const response = await fetch(url);
  let rest = '';
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const frames = (rest + chunk).split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) yield JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? '{}') as Frame;
  }
}

/** Reads the stream until the run has ended; returns the previewed text and the names of the durable events. */
async function follow(url: string): Promise<{ text: string; events: string[]; seqs: number[] }> {
  const seen = { text: '', events: [] as string[], seqs: [] as number[] };
  for await (const { type, seq, data } of framesOf(url)) {
    if (type === 'llm:chunk') seen.text += data.content;
    for (const part of data.inFlight?.chunks ?? []) seen.text += part.content;
    if (seq === undefined) continue;
    seen.events.push(type);
    seen.seqs.push(seq);
    if (type === 'run:completed') return seen;
  }
  throw new Error('the stream ended before the run');
}

describe.each(availableBackends())('separate api and steps processes on %s', (backend) => {
  it('run a session end to end; readers that join at different moments get the same text, once', async () => {
    await using service = await startTestService({ backend });
    const text = 'A streamed answer that takes its time, with an emoji 🎻 in it.';
    service.simulator.script('*', [{ text, chunkChars: 3, gates: { afterChunks: { count: 8, gate: 'middle' } } }]);
    const environment = { ...service.environment, BATON_PORT: '0', BATON_MODEL: 'simulated/any' };
    await using api = await startWorkerProcess('api', environment);
    await using _steps = await startWorkerProcess('steps', environment);
    const { id } = await call(`${api.url}/v1/sessions`, { agent: 'workspace' });
    const early = follow(`${api.url}/v1/sessions/${id}/events?after=0`);
    const sent = await call(`${api.url}/v1/sessions/${id}/messages`, { content: 'Go' });
    expect(sent).toMatchObject({ queued: false, position: 0, status: 'queued' });
    await service.simulator.gate('middle').reached;
    const late = follow(`${api.url}/v1/sessions/${id}/events?after=0`);
    const busy = await fetch(`${api.url}/v1/sessions/${id}`);
    expect(await busy.json()).toMatchObject({ status: 'busy', activeRunId: sent['runId'] });
    service.simulator.gate('middle').release();
    const readers = await Promise.all([early, late]);
    for (const reader of readers) {
      expect(reader.text).toBe(text);
      expect(reader.seqs).toEqual(reader.seqs.map((_, index) => index + 1));
    }
    expect(readers[0]?.events).toEqual(readers[1]?.events);
    const run = await call(`${api.url}/v1/runs/${sent['runId']}/wait?timeoutMs=20000`);
    expect(run).toMatchObject({ status: 'completed', steps: 1 });
  });
});
