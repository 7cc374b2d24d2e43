import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createHttpInstruments } from '../../src/metrics/http-instruments.ts';
import { createLogInstruments } from '../../src/metrics/log-instruments.ts';
import { createStateGauges } from '../../src/metrics/state-gauges.ts';
import { startTestApi, type TestApi, testAgents } from '../http/test-api.ts';
import {
  textsOfCommands,
  textsOfConsole,
  textsOfDocument,
  textsOfMetrics,
  textsOfSettings,
  textsOfTools,
} from './published-texts.ts';
import { fragmentsAmong } from './wording.ts';

test('a text that begins with a pronoun is found, in quotes and at any depth', () => {
  const document = { paths: { '/': { get: { summary: 'Its list', responses: [{ description: '`null`: none.' }] } } } };
  expect(fragmentsAmong(textsOfDocument(document))).toEqual([
    '/paths///get/summary: Its list',
    '/paths///get/responses/0/description: `null`: none.',
  ]);
  expect(fragmentsAmong([{ place: 'metric', text: 'How long tools ran.' }])).toEqual(['metric: How long tools ran.']);
  const sound = ['Itself a list.', 'Whole answer.', 'The session.', 'Offered tools.', 'Nullable list.', 'As JSON.'];
  expect(fragmentsAmong(sound.map((text) => ({ place: '', text })))).toEqual([]);
});

test('descriptions in settings and in the help of commands begin with a noun or a verb', async () => {
  const [settings, commands] = [textsOfSettings(), await textsOfCommands()];
  expect([settings.length, commands.length].map((count) => count > 60)).toEqual([true, true]);
  expect(fragmentsAmong([...settings, ...commands])).toEqual([]);
});

test('titles, hints and paragraphs of the console begin with a noun or a verb', async () => {
  const texts = await textsOfConsole();
  expect(texts.length).toBeGreaterThan(200);
  expect(fragmentsAmong(texts)).toEqual([]);
});

describe('of a service', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startTestApi();
  });
  afterAll(() => api[Symbol.asyncDispose]());

  test('descriptions in the OpenAPI document begin with a noun or a verb', async () => {
    const { body } = await api.call('GET', '/openapi.json');
    const texts = textsOfDocument(body);
    expect(texts.length).toBeGreaterThan(400);
    expect(fragmentsAmong(texts)).toEqual([]);
  });

  test('descriptions of metrics begin with a noun or a verb', async () => {
    const registry = new Registry();
    createHttpInstruments(registry);
    createLogInstruments(registry);
    const counts = async (): Promise<never> => Promise.reject(new Error('not read'));
    const gauges = createStateGauges({ db: api.db, jobs: { counts }, log: () => {} });
    const texts = await textsOfMetrics([registry, gauges.registry]);
    expect(texts.length).toBeGreaterThan(40);
    expect(fragmentsAmong(texts)).toEqual([]);
  });

  test('descriptions of tools, which models read, begin with a noun or a verb', async () => {
    const texts = await textsOfTools(api.db, testAgents);
    expect(texts.length).toBeGreaterThan(30);
    expect(fragmentsAmong(texts)).toEqual([]);
  });
});
