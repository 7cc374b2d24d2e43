import { writeFile } from 'node:fs/promises';
import { SETTINGS_PAGE, settingsPage } from './settings-page.ts';

await writeFile(SETTINGS_PAGE, settingsPage());
