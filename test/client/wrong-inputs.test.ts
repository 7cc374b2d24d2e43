import { expect, test } from 'vitest';
import { toBatonError } from '../../src/client/baton-error.ts';
import { createClient } from '../../src/client/client.ts';

const asking = async (): Promise<Response> => {
  throw new Error('nothing is asked');
};

test.each([
  ['localhost:4400', '"localhost:4400" is no URL that begins with http:// or https://'],
  ['', '"" is no URL'],
  ['http://', '"http://" is no URL'],
  ['/api', '"/api" is no URL'],
  [undefined, 'undefined is no URL'],
  ['http://user:secret@host', 'has a user or a password in it'],
  ['http://host/?tenant=a', 'has a query or a fragment'],
])('the base URL %j is refused at once, with what is wrong with it', (baseUrl, problem) => {
  const create = (): unknown => createClient({ baseUrl: baseUrl as string });
  expect(create).toThrow(expect.objectContaining({ code: 'config_invalid', status: null }));
  expect(create).toThrow(problem);
  expect(create).toThrow('such as "http://127.0.0.1:4400"');
});

test('a client that is made without options says what it needs', () => {
  const create = createClient as () => unknown;
  expect(create).toThrow(expect.objectContaining({ code: 'config_invalid' }));
  expect(create).toThrow('baseUrl: undefined is no URL');
});

test('a base URL may have a path and a slash at its end', async () => {
  const asked: string[] = [];
  const client = createClient({
    baseUrl: 'https://host/baton/',
    fetch: async (url) => {
      asked.push(url);
      return Response.json({});
    },
  });
  await client.agents();
  expect(asked).toEqual(['https://host/baton/v1/agents']);
});

test.each([null, 7, 'text'])('the result %j is refused by the service, which knows what it may be', async (output) => {
  let sent: unknown;
  const fetch = async (_url: string, { body }: RequestInit) => {
    sent = JSON.parse(String(body));
    return problem('output: ', []);
  };
  const client = createClient({ baseUrl: 'http://service', fetch });
  await expect(client.send('ses_1', 'Go', { output: output as never })).rejects.toMatchObject({
    code: 'invalid_request',
  });
  expect(sent).toEqual({ content: 'Go', output });
});

test.each([undefined, null, '', '..', '.'])('the id %j is refused before anything is sent', async (id) => {
  const client = createClient({ baseUrl: 'http://service', fetch: asking });
  await expect(client.send(id as string, 'Go')).rejects.toMatchObject({ code: 'invalid_request', status: null });
  await expect(client.runs.get(id as string)).rejects.toThrow('an id is missing in /v1/runs/');
  await expect(client.events(id as string).next()).rejects.toMatchObject({ code: 'invalid_request' });
});

const problem = (detail: string, errors: readonly object[]): Response =>
  Response.json({ code: 'invalid_request', detail, errors }, { status: 400 });

test('the message of an error says each thing once', async () => {
  const known = 'there is no agent "nope"; known: helper';
  const once = await toBatonError(problem(known, [{ path: 'agent', message: known }]));
  expect([once.message, once.errors]).toEqual([known, [{ path: 'agent', message: known }]]);
  const told = await toBatonError(problem('Invalid body', [{ path: 'title', message: 'is too long' }]));
  expect(told.message).toBe('Invalid body (title: is too long)');
  const half = problem('title: is too long', [
    { path: 'title', message: 'is too long' },
    { path: '', message: 'one key too many' },
  ]);
  expect((await toBatonError(half)).message).toBe('title: is too long (one key too many)');
});

type Method = (...given: unknown[]) => unknown;

/** All methods of the client by their names, each with its object. */
const methodsOf = (client: object, of = ''): readonly (readonly [string, Method])[] =>
  Object.entries(client).flatMap(([key, member]: [string, unknown]) =>
    typeof member === 'function' ? [[of + key, member as Method]] : methodsOf(member as object, `${of}${key}.`),
  );

test('null, a text or a list as options of any method is refused before anything is sent', async () => {
  const methods = methodsOf(createClient({ baseUrl: 'http://service', fetch: asking, retries: 0 }));
  expect(methods.length).toBeGreaterThan(60);
  for (const [name, method] of methods) {
    for (const wrong of [null, 'text', ['list']]) {
      // The options of each method are its first to fourth argument.
      const calls = [0, 1, 2, 3].map(async (before) => method(...Array.from({ length: before }, () => 'ses_1'), wrong));
      const refused = (await Promise.allSettled(calls)).filter(
        ({ status, ...settled }) =>
          status === 'rejected' &&
          `${Reflect.get(settled, 'reason')}`.includes(`BatonError: ${name}: expected options`),
      );
      expect(refused.length, `${name}(${JSON.stringify(wrong)})`).toBeGreaterThan(0);
    }
  }
});
