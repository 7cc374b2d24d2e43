import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { startApi } from '../../../src/app/api-server.ts';
import { anyBackend } from '../../support/backends.ts';
import { startTestService } from '../../support/service.ts';
import {
  AUTHORIZATION_NOT_RUN,
  CLIENT_LACKS,
  CLIENT_NOT_RUN,
  CLIENT_PASSES,
  CLIENT_SCENARIOS,
  SERVER_LACKS,
  SERVER_NOT_RUN,
  SERVER_PASSES,
} from './not-offered.ts';
import {
  isSuiteInstalled,
  outdated,
  runSuite,
  type SuiteResult,
  scenariosFor,
  unaccounted,
  unexplained,
} from './suite.ts';

const docs = readFileSync(path.join(import.meta.dirname, '../../../docs/tools.md'), 'utf8');
const tell = (role: string, revision: string, passed: number, failed: number): void =>
  void process.stdout.write(`conformance, ${role}, ${revision}: ${passed} checks pass, ${failed} do not\n`);

/** The scenarios for clients run one by one, each for as long as its time limit if it fails. */
const CLIENT_TIMEOUT_MS = 300_000;

it('the numbers in the manual are those that the tests ask for', () => {
  for (const revision of Object.keys(SERVER_PASSES)) {
    expect(docs).toContain(`| ${revision} | ${SERVER_PASSES[revision]} | ${CLIENT_PASSES[revision]} |`);
  }
});

describe.skipIf(!isSuiteInstalled)("MCP's conformance suite", () => {
  it.each(Object.entries(SERVER_LACKS))(
    'finds the server right for %s, but for what is not offered',
    async (revision, lacks) => {
      // Without keys: the suite has no place for one.
      await using service = await startTestService({ backend: anyBackend(), environment: { BATON_PORT: '0' } });
      service.simulator.script('test', () => ({ text: 'Done.' }));
      await service.startWorker();
      await using api = await startApi(service.deps);
      const result = await runSuite('server', ['--url', `${api.url}/mcp`, '--requirements', revision]);
      tell('server', revision, result.passed, result.failed.length);
      expect(unexplained(result, lacks)).toEqual([]);
      expect(outdated(result, lacks)).toEqual([]);
      expect(result.passed).toBeGreaterThanOrEqual(SERVER_PASSES[revision] ?? 1);
      const listed = await scenariosFor('Server');
      expect(listed.length).toBeGreaterThan(60);
      expect(unaccounted(listed, [revision], result.scenarios, SERVER_NOT_RUN)).toEqual([]);
    },
  );

  it('has no scenario for clients that is neither run nor left out with a reason', async () => {
    const listed = await scenariosFor('Client');
    expect(listed.length).toBeGreaterThan(40);
    for (const [revision, run] of Object.entries(CLIENT_SCENARIOS)) {
      expect(unaccounted(listed, [revision], run, CLIENT_NOT_RUN)).toEqual([]);
      const ofRevision = listed.filter(({ revisions }) => revisions.includes(revision)).map(({ name }) => name);
      expect(run.filter((name) => !ofRevision.includes(name))).toEqual([]);
    }
    expect(unaccounted(listed, ['extension'], [], CLIENT_NOT_RUN)).toEqual([]);
  });

  it('has no scenario for servers of extensions or authorization that is left out without a reason', async () => {
    const extensions = (await scenariosFor('Server')).filter(({ name }) => !name.startsWith('tasks-'));
    expect(unaccounted(extensions, ['extension'], [], SERVER_NOT_RUN)).toEqual([]);
    const authorization = await scenariosFor('Authorization server');
    expect(authorization.length).toBeGreaterThan(0);
    const revisions = authorization.flatMap((scenario) => scenario.revisions);
    expect(unaccounted(authorization, revisions, [], AUTHORIZATION_NOT_RUN)).toEqual([]);
  });

  it('shows a new scenario that has neither a result nor a reason', () => {
    const added = { name: 'new', revisions: ['2026-07-28'] };
    expect(unaccounted([added], ['2026-07-28'], [], SERVER_NOT_RUN)).toEqual(['new']);
    expect(unaccounted([added], ['2026-07-28'], ['new'], SERVER_NOT_RUN)).toEqual([]);
    expect(unaccounted([added], ['2026-07-28'], [], [{ reason: 'Because.', scenarios: ['n*'] }])).toEqual([]);
  });

  it.each(Object.entries(CLIENT_SCENARIOS))(
    'finds Baton right as a client for %s, but for what is not offered',
    async (revision, scenarios) => {
      const driver = path.join(import.meta.dirname, 'client-driver.ts');
      const results: SuiteResult[] = [];
      // One by one: all at once would be slower than their time limits.
      for (const scenario of scenarios) {
        const args = ['--command', `"${process.execPath}" "${driver}"`, '--scenario', scenario];
        results.push(await runSuite('client', [...args, '--spec-version', revision]));
      }
      const failed = results.flatMap((result) => result.failed);
      const passed = results.reduce((sum, result) => sum + result.passed, 0);
      tell('client', revision, passed, failed.length);
      expect(results.map((result) => result.passed + result.failed.length)).not.toContain(0);
      const lacks = CLIENT_LACKS[revision] ?? [];
      expect(results.flatMap((result) => unexplained(result, lacks))).toEqual([]);
      expect(outdated({ failed }, lacks)).toEqual([]);
      expect(passed).toBeGreaterThanOrEqual(CLIENT_PASSES[revision] ?? 1);
    },
    CLIENT_TIMEOUT_MS,
  );
});
