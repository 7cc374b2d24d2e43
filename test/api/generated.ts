import { settingsPage } from '../docs/settings-page.ts';
import { CLIENT_TYPES_FILE, clientTypes } from './client-types.ts';
import { openApiDocument } from './document.ts';
import { apiPage, eventsPage } from './pages.ts';

/** Everything that is made of the contract in `src/api` and of the settings: the texts of the files by their paths. */
export async function generatedFiles(): Promise<ReadonlyMap<string, string>> {
  const document = await openApiDocument();
  return new Map([
    [CLIENT_TYPES_FILE, clientTypes(document)],
    ['docs/api.md', apiPage(document)],
    ['docs/events.md', eventsPage(document)],
    ['docs/settings.md', settingsPage()],
  ]);
}
