//! What a built program asks of the machine: a version of glibc, or nothing.

use std::{fs, path::Path};

use super::{fault, name};

/// Checks the program of a target: one for musl is linked statically; one for glibc needs no newer version than `newest`.
///
/// # Errors
///
/// Names what the program needs and should not.
pub(super) fn check(
    program: &Path,
    triple: &str,
    newest: Option<(u32, u32)>,
) -> Result<(), String> {
    if triple.ends_with("-darwin") {
        return Ok(());
    }
    let bytes = fs::read(program).map_err(|e| fault(program, &e))?;
    let needs = needed(&bytes);
    let program = name(program);
    if triple.ends_with("-musl") {
        return match needs {
            None => Ok(()),
            Some((major, minor)) => Err(format!(
                "{program} for {triple} needs glibc {major}.{minor}: it has to be linked statically"
            )),
        };
    }
    let Some(needs) = needs else {
        return Err(format!(
            "{program} for {triple} names no version of glibc: it was linked for another target"
        ));
    };
    eprintln!("    {program} needs glibc {}.{} or newer", needs.0, needs.1);
    match newest {
        Some(newest) if needs > newest => Err(format!(
            "{program} needs glibc {}.{}, and {}.{} is the newest that it may need: build it on an older system",
            needs.0, needs.1, newest.0, newest.1
        )),
        _ => Ok(()),
    }
}

/// The newest version of glibc whose symbols a program names (`GLIBC_2.34`).
fn needed(program: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let marks = program
        .windows(MARK.len())
        .enumerate()
        .filter(|(_, window)| *window == MARK);
    marks
        .filter_map(|(at, _)| version(&program[at + MARK.len()..]))
        .max()
}

/// The version at the beginning of a text that ends with a zero byte: other text names no symbol.
fn version(text: &[u8]) -> Option<(u32, u32)> {
    let end = text.iter().take(12).position(|byte| *byte == 0)?;
    let mut numbers = std::str::from_utf8(&text[..end]).ok()?.split('.');
    let major = numbers.next()?.parse().ok()?;
    Some((major, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_a_program_names_is_found() {
        let program =
            b"\x7fELF\0GLIBC_2.17\0GLIBC_2.3.4\0GLIBC_2.28\0GLIBC_PRIVATE\0set GLIBC_9.9 to\0";
        assert_eq!(needed(program), Some((2, 28)));
        assert_eq!(needed(b"\x7fELF\0musl\0"), None);
    }

    #[test]
    fn a_program_that_needs_a_newer_glibc_or_any_is_refused() {
        let file = std::env::temp_dir().join(format!("windlass-elf-{}", std::process::id()));
        std::fs::write(&file, b"\x7fELF\0GLIBC_2.34\0").unwrap();
        let gnu = "x86_64-unknown-linux-gnu";
        assert_eq!(check(&file, gnu, None), Ok(()));
        assert_eq!(check(&file, gnu, Some((2, 34))), Ok(()));
        let error = check(&file, gnu, Some((2, 28))).unwrap_err();
        assert!(
            error.contains("needs glibc 2.34, and 2.28 is the newest"),
            "{error}"
        );
        let error = check(&file, "x86_64-unknown-linux-musl", None).unwrap_err();
        assert!(error.contains("has to be linked statically"), "{error}");
        std::fs::write(&file, b"\x7fELF\0").unwrap();
        assert_eq!(check(&file, "x86_64-unknown-linux-musl", None), Ok(()));
        assert!(check(&file, gnu, None).is_err());
        std::fs::remove_file(&file).unwrap();
    }
}
