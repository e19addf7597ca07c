//! What was read back, as text.

/// Returns the fact `synchronous`: the levels that `PRAGMA synchronous` returned on each connection.
pub fn synchronous(levels: &[i64]) -> (String, String) {
    let name = |level: i64| match level {
        0 => "OFF",
        1 => "NORMAL",
        2 => "FULL",
        _ => "EXTRA",
    };
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for level in levels {
        match counts.iter_mut().find(|(of, _)| *of == name(*level)) {
            Some((_, count)) => *count += 1,
            None => counts.push((name(*level), 1)),
        }
    }
    counts.sort_by_key(|(_, count)| *count);
    let text = match counts.as_slice() {
        [] => "not read back: no connection is open".to_owned(),
        [(only, _)] => format!("{only} on each connection"),
        [fewest @ .., (most, _)] => {
            let fewest = fewest
                .iter()
                .map(|(name, count)| format!("{name} on {count}"));
            let fewest: Vec<String> = fewest.collect();
            format!("{}, {most} on the others", fewest.join(", "))
        }
    };
    ("synchronous".to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_differ_are_counted() {
        assert_eq!(synchronous(&[2, 0, 2]).1, "OFF on 1, FULL on the others");
        assert_eq!(synchronous(&[1, 1]).1, "NORMAL on each connection");
    }
}
