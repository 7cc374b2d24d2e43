import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { startApi } from '../../../src/app/api-server.ts';
import { anyBackend } from '../../support/backends.ts';
import { startTestService } from '../../support/service.ts';
import { CLIENT_LACKS, CLIENT_NOT_RUN, CLIENT_SCENARIOS, SERVER_LACKS } from './not-offered.ts';
import { clientScenarios, fits, isSuiteInstalled, outdated, runSuite, type SuiteResult, unexplained } from './suite.ts';

/** Checks that pass at least: a suite that reaches nothing fails nothing. */
const SERVER_PASSES: Readonly<Record<string, number>> = { '2025-11-25': 39, '2026-07-28': 101 };

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
      expect(unexplained(result, lacks)).toEqual([]);
      expect(outdated(result, lacks)).toEqual([]);
      expect(result.passed).toBeGreaterThanOrEqual(SERVER_PASSES[revision] ?? 1);
    },
  );

  it('has no scenario for clients that is neither run nor left out with a reason', async () => {
    const listed = await clientScenarios();
    expect(listed.length).toBeGreaterThan(40);
    const isLeftOut = (name: string): boolean =>
      CLIENT_NOT_RUN.some(({ scenarios }) => scenarios.some((pattern) => fits(pattern, name)));
    for (const [revision, run] of Object.entries(CLIENT_SCENARIOS)) {
      const ofRevision = listed.filter(({ revisions }) => revisions.includes(revision)).map(({ name }) => name);
      expect(ofRevision.filter((name) => !isLeftOut(name)).sort()).toEqual([...run].sort());
    }
    const extensions = listed.filter(({ revisions }) => revisions.includes('extension'));
    expect(extensions.filter(({ name }) => !isLeftOut(name))).toEqual([]);
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
      expect(results.map(({ passed, failed }) => passed + failed.length)).not.toContain(0);
      const lacks = CLIENT_LACKS[revision] ?? [];
      expect(results.flatMap((result) => unexplained(result, lacks))).toEqual([]);
      const failed = results.flatMap((result) => result.failed);
      expect(outdated({ failed }, lacks)).toEqual([]);
    },
  );
});
