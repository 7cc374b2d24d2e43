import path from 'node:path';

/** The folders of declarations, beside that of the agents. */
export const declarationFolders = (agentsDir: string): Readonly<{ webhooks: string; schedules: string }> => ({
  webhooks: path.join(agentsDir, '../webhooks'),
  schedules: path.join(agentsDir, '../schedules'),
});
