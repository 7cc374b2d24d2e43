import { expect, it } from 'vitest';
import { releaseProblems } from '../../packages/release.ts';

const READY = {
  version: '0.2.0',
  status: '',
  changesets: ['README.md', 'config.json'],
  changelog: '# Changelog\n\n## 0.2.0\n\n- New.\n\n## 0.1.0\n',
};

it('a checkout is released only when all of it is committed and its changes are in the changelog', () => {
  expect(releaseProblems(READY)).toEqual([]);
  expect(releaseProblems({ ...READY, status: ' M src/a.ts' })).toEqual([expect.stringContaining('src/a.ts')]);
  expect(releaseProblems({ ...READY, changesets: [...READY.changesets, 'red-birds-sing.md'] })).toEqual([
    'Run npm run changes:version: red-birds-sing.md is not in CHANGELOG.md.',
  ]);
  expect(releaseProblems({ ...READY, version: '0.2.1' })).toEqual(['CHANGELOG.md has no section ## 0.2.1.']);
});
