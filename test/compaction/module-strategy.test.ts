import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCompactorLoader } from '../../src/compaction/load-compactor.ts';
import { startScenario } from '../flow/context-scenario.ts';
import { readingReplies } from './compaction-support.ts';

let folder = '';
let file = '';
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'baton-compactor-'));
  file = path.join(folder, 'mine.ts');
  await writeFile(
    file,
    `export const mine = ({ messages, transcript, previousSummary, round }) =>
       \`Round \${round} of \${messages.length} messages, \${transcript.includes('src/file-0.ts')}, after \${previousSummary}\`;
     export default () => 'word '.repeat(100_000);
     export const broken = () => { throw new Error('The archive is closed'); };
     export const none = 1;`,
  );
});
afterAll(() => rm(folder, { recursive: true }));

const compactWith = async (strategy: string) => {
  const context = { maxContextTokens: 24_000, prune: { enabled: false }, compaction: { strategy } };
  const scenario = await startScenario({ window: 24_000, context });
  scenario.service.simulator.script('test', readingReplies(8, 1_500));
  await scenario.ask('Read all the files.');
  await scenario.ended((await scenario.compact()).runId);
  return scenario;
};

describe('a strategy that is a module', () => {
  it('writes the text that stands for the old messages, and is recorded by its name', async () => {
    await using scenario = await compactWith(`module:${file}#mine`);
    expect(await scenario.rounds()).toMatchObject([{ strategy: `module:${file}#mine`, state: 'completed' }]);
    expect(scenario.calls()).toMatchObject({ summarizer: 0 });
    const shown = JSON.stringify(await scenario.messages());
    expect(shown).toMatch(/Round 1 of \d+ messages, true, after null/);
  });

  it.each([
    ['', 'not smaller than what it stands for'],
    ['#broken', 'threw Error: The archive is closed'],
    ['#none', 'exports no function named none'],
  ])('that fails changes nothing, and says why (%s)', async (exported, why) => {
    await using scenario = await compactWith(`module:${file}${exported}`);
    const [round] = await scenario.rounds();
    expect(round).toMatchObject({ state: 'failed', error: { code: 'summary_invalid' } });
    expect(round?.error?.message).toContain(why);
  });

  it('is refused where the workspace has it: tools could change its code', async () => {
    const load = createCompactorLoader(folder, folder);
    await expect(load(`module:${file}#mine`)).rejects.toMatchObject({ code: 'config_invalid' });
  });
});
