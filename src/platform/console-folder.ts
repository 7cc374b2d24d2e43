import path from 'node:path';

/** The folder of the built console, for the sources as well as for the build in `dist`. */
export const CONSOLE_FOLDER = path.join(
  import.meta.dirname.replace(/[/\\]dist(?=[/\\]src[/\\]platform$)/, ''),
  '../../dist/console',
);
