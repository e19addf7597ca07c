//! Refuses a SQLite library that can corrupt a file.
//!
//! SQLite 3.7.0 to 3.51.2 can corrupt a file in WAL mode when two connections write or checkpoint at the moment at which
//! the log starts again from its beginning (<https://sqlite.org/wal.html#walresetbug>). A store has several connections,
//! and its log starts again all the time. SQLite 3.51.3 has the fix, and so have 3.50.7 and 3.44.6.
//!
//! The library that is bundled with this crate has the fix. A program can link another one: with the feature
//! `sqlite-system`, or by the variables of `libsqlite3-sys`.

use std::path::Path;

use crate::store::Error;

/// The first version with the fix, as `sqlite3_libversion_number` numbers it. All later versions have it.
const FLOOR: i32 = 3_051_003;
/// The first versions with the fix in older branches, which got it later than their first release.
const PATCHED: [i32; 2] = [3_044_006, 3_050_007];
/// One branch has the numbers of this many patch releases.
const BRANCH: i32 = 1000;

/// Checks the library that this program has linked.
///
/// # Errors
///
/// [`Error::OldSqlite`] if it lacks the fix.
pub(super) fn check(path: &Path) -> Result<(), Error> {
    check_version(rusqlite::version_number(), rusqlite::version(), path)
}

fn check_version(number: i32, name: &str, path: &Path) -> Result<(), Error> {
    if is_fixed(number) {
        return Ok(());
    }
    Err(Error::OldSqlite {
        file: path.to_owned(),
        found: name.to_owned(),
    })
}

/// Returns whether the version with this number has the fix.
fn is_fixed(number: i32) -> bool {
    let is_patched = |first: &i32| number >= *first && number / BRANCH == first / BRANCH;
    number >= FLOOR || PATCHED.iter().any(is_patched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_with_the_fix_of_the_log_that_starts_again_are_accepted() {
        for (number, accepted) in [
            (3_007_000, false),
            (3_040_001, false),
            (3_044_005, false),
            (3_044_006, true),
            (3_044_999, true),
            (3_045_000, false),
            (3_045_006, false),
            (3_049_009, false),
            (3_050_006, false),
            (3_050_007, true),
            (3_050_008, true),
            (3_051_000, false),
            (3_051_002, false),
            (3_051_003, true),
            (3_052_000, true),
            (3_054_001, true),
            (4_000_000, true),
            (0, false),
            (-1, false),
        ] {
            assert_eq!(is_fixed(number), accepted, "{number}");
        }
    }

    #[test]
    fn the_error_names_the_file_the_version_the_floor_and_what_to_do() {
        let path = Path::new("/data/tasks.db");
        let error = check_version(3_040_001, "3.40.1", path).unwrap_err();
        assert!(
            matches!(&error, Error::OldSqlite { file, found } if file == path && found == "3.40.1")
        );
        assert!(!error.is_retryable());
        assert_eq!(
            error.to_string(),
            "could not open '/data/tasks.db': this program uses SQLite 3.40.1, which can corrupt a file that several \
             connections use; build it with the feature `sqlite` of windlass, which includes a SQLite with the fix, or \
             use SQLite 3.51.3 or later (of older branches: 3.50.7 or later, 3.44.6 or later)"
        );
    }

    #[test]
    fn the_library_of_these_tests_has_the_fix() {
        check(Path::new("tasks.db")).unwrap();
    }
}
