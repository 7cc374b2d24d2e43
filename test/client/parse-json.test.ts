import { expect, it } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { parseExactly } from '../../src/domain/exact-json.ts';

const WRITTEN = '{"id":12345678901234567890,"7":1.10}';

/** Answers everything with this JSON, streams with one event of it. */
const answer = async (_url: string, { headers, body }: RequestInit): Promise<Response> => {
  if (typeof body === 'string') sent.push(body);
  const isStream = new Headers(headers).get('accept') === 'text/event-stream';
  const event = `event: activity\ndata: ${isStream ? WRITTEN : ''}\n\n`;
  return new Response(isStream ? event : WRITTEN);
};
const sent: string[] = [];

it('the program may read the JSON of answers and streams itself, and sends numbers with all digits', async () => {
  const client = createClient({ baseUrl: 'http://service', fetch: answer, retries: 0, parseJson: parseExactly });
  expect(JSON.stringify(await client.runs.get('run_1'))).toBe(WRITTEN);
  const { value: event } = await client.events('ses_1', { after: 0 }).next();
  expect(JSON.stringify(event)).toBe(WRITTEN);
  const { value: change } = await client.activity()[Symbol.asyncIterator]().next();
  expect(JSON.stringify(change?.type === 'activity' && change.data)).toBe(WRITTEN);
  await client.runs.answer('run_1', 'call_1', { output: parseExactly(WRITTEN) as never });
  expect(sent).toEqual([`{"output":${WRITTEN}}`]);
});

it('what the program cannot read is no answer', async () => {
  const parseJson = (): never => {
    throw new RangeError('too long');
  };
  const client = createClient({ baseUrl: 'http://service', fetch: answer, retries: 0, parseJson });
  await expect(client.runs.get('run_1')).rejects.toMatchObject({
    code: 'unexpected_response',
    cause: { message: 'too long' },
  });
});
