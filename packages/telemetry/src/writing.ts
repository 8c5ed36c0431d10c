/** Runs what writes a file. A fault of the file system, such as a full disk, names the file and says what to do. */
export function writing<Result>(path: string, write: () => Result): Result {
  try {
    return write();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined || code === 'EEXIST') throw error;
    throw new Error(`cannot write ${path}: ${message}; make room there, or give another folder (--out)`, { cause: error });
  }
}
