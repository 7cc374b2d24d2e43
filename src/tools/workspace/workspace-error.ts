export type WorkspaceErrorCode =
  | 'ABORTED'
  | 'BINARY_FILE'
  | 'COMMAND_NOT_STARTED'
  | 'EDIT_NOT_UNIQUE'
  | 'EDIT_NO_CHANGE'
  | 'EDIT_NO_MATCH'
  | 'FILE_BUSY'
  | 'FILE_TOO_LARGE'
  | 'INVALID_INPUT'
  | 'INVALID_PATTERN'
  | 'IO_ERROR'
  | 'NOT_A_DIRECTORY'
  | 'NOT_A_FILE'
  | 'NOT_FOUND'
  | 'NO_ACCESS'
  | 'OFFSET_BEYOND_END'
  | 'PATH_INVALID'
  | 'PATH_OUTSIDE_WORKSPACE'
  | 'SEARCH_FAILED'
  | 'SEARCH_TIMEOUT';

/**
 * An error that the model reads: its message says how to continue and never names a path above the workspace root. Only
 * `cause` has details that may (such as the error of the file system).
 */
export class WorkspaceError extends Error {
  readonly code: WorkspaceErrorCode;

  constructor(code: WorkspaceErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'WorkspaceError';
    this.code = code;
  }
}

/** The `code` of a Node.js system error (`ENOENT`, …). Undefined: it is another error. */
export function systemErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error) || !('errno' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Turns a Node.js system error into one for the model, about the path that the model gave. */
export function fromSystemError(error: Error, code: string, path: string): WorkspaceError {
  const quoted = JSON.stringify(path);
  const options = { cause: error };
  switch (code) {
    case 'ENOENT':
      return new WorkspaceError('NOT_FOUND', `${quoted} does not exist. Use list_files to see what does.`, options);
    case 'ENOTDIR':
      return new WorkspaceError('NOT_A_DIRECTORY', `${quoted} is not a directory or leads through a file.`, options);
    case 'EISDIR':
    case 'ENXIO':
      return new WorkspaceError('NOT_A_FILE', `${quoted} is not a regular file.`, options);
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new WorkspaceError('NO_ACCESS', `No permission to access ${quoted}.`, options);
    case 'ELOOP':
      return new WorkspaceError('PATH_INVALID', `${quoted} has too many symbolic links.`, options);
    case 'ENAMETOOLONG':
      return new WorkspaceError('PATH_INVALID', `The path is too long (${path.length} characters).`, options);
    default:
      return new WorkspaceError('IO_ERROR', `The file system refused to access ${quoted}: ${code}.`, options);
  }
}
