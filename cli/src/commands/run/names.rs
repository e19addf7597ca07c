//! Stable names: of batches, and the readable part of ids. The same call gets the same name.

use std::path::Path;

use super::args::Args;
use crate::hash;

/// The longest readable part of an id.
const READABLE: usize = 40;

/// Returns the characters of a text that an id may contain, starting at its end, where paths
/// differ.
pub(super) fn slug(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| match c {
            'a'..='z' | '0'..='9' | '.' => c,
            'A'..='Z' => c.to_ascii_lowercase(),
            _ => '-',
        })
        .collect();
    // Only ASCII is left, so a byte is a character.
    let end = &plain[plain.len().saturating_sub(READABLE)..];
    match end.trim_matches(['-', '.']) {
        "" => "line".to_owned(),
        text => text.to_owned(),
    }
}

/// Returns a stable name: the same call gets the same name.
pub(super) fn default_batch(args: &Args, cwd: &str) -> String {
    let file = args
        .file
        .canonicalize()
        .unwrap_or_else(|_| args.file.clone());
    let file = file.to_string_lossy();
    let each = args.each.as_deref().unwrap_or_default();
    // In the configuration file the option may be set without an --each on the command line.
    let shell = args.shell && args.each.is_some();
    let how = format!("{shell} {}", args.null);
    let parts = [cwd, &file, each, &how].map(str::as_bytes);
    let readable = match &args.each {
        Some(each) => each.split_whitespace().next().unwrap_or("each").to_owned(),
        None if file == "-" => "stdin".to_owned(),
        None => Path::new(&*file)
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned()),
    };
    format!("{}-{}", slug(&readable), hash::hex(&parts, 8))
}
