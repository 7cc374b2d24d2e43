import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { SETTINGS_PAGE, settingsPage } from './settings-page.ts';

test('docs/settings.md is what node test/docs/write-settings.ts writes', async () => {
  expect(await readFile(SETTINGS_PAGE, 'utf8')).toBe(settingsPage());
});
