import path from 'node:path';

/** The folder of the manifest, for the sources as well as for the build in `dist`. */
export const ROOT_FOLDER = path.join(import.meta.dirname.replace(/[/\\]dist(?=[/\\]src[/\\]platform$)/, ''), '../..');

/** The folder of the built console. */
export const CONSOLE_FOLDER = path.join(ROOT_FOLDER, 'dist/console');
