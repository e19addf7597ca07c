//! The contrast of the colours, computed from the style sheet, and the length of the script.

use std::collections::BTreeMap;

use super::{script, style};

/// Which colour stands on which.
const PAIRS: [(&str, &str); 24] = [
    ("text", "back"),
    ("text", "raised"),
    ("dim", "back"),
    ("dim", "raised"),
    ("link", "back"),
    ("link", "raised"),
    ("bad", "back"),
    ("bad", "raised"),
    ("bad", "bad-back"),
    ("warn", "back"),
    ("warn", "raised"),
    ("warn", "warn-back"),
    ("good", "back"),
    ("good", "raised"),
    ("good", "good-back"),
    ("busy", "busy-back"),
    ("rest", "rest-back"),
    ("dead", "dead-back"),
    ("busy", "back"),
    ("rest", "back"),
    ("dead", "back"),
    ("text", "warn-back"),
    ("text", "good-back"),
    ("text", "bad-back"),
];

/// Returns the colours of a part of the style sheet.
fn colours(css: &str) -> BTreeMap<String, [f64; 3]> {
    let lines = css.lines().filter_map(|line| {
        let (name, value) = line.trim().strip_prefix("--")?.split_once(": #")?;
        let value = value.strip_suffix(';')?;
        let part = |at: usize| {
            let byte = u8::from_str_radix(&value[at..at + 2], 16).unwrap();
            f64::from(byte) / 255.0
        };
        Some((name.to_owned(), [part(0), part(2), part(4)]))
    });
    lines.collect()
}

/// Returns the relative luminance of a colour, as WCAG 2 defines it.
fn luminance(colour: [f64; 3]) -> f64 {
    let linear = colour.map(|part| match part <= 0.040_45 {
        true => part / 12.92,
        false => ((part + 0.055) / 1.055).powf(2.4),
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn each_pair_of_colours_has_the_contrast_of_wcag_aa() {
    let (light, dark) = style()
        .text
        .split_once("prefers-color-scheme: dark")
        .unwrap();
    for (theme, colours) in [("light", colours(light)), ("dark", colours(dark))] {
        for (front, back) in PAIRS {
            let contrast = contrast(colours[front], colours[back]);
            assert!(
                contrast >= 4.5,
                "{theme}: {front} on {back} has {contrast:.2}"
            );
        }
        // The border of a field, and the mark of the focus, need less.
        for front in ["dim", "focus"] {
            assert!(
                contrast(colours[front], colours["back"]) >= 3.0,
                "{theme}: {front}"
            );
        }
    }
}

#[test]
fn the_contrast_is_that_of_the_definition() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9);
    let grey = colours("  --a: #767676;\n")["a"];
    assert!((contrast(grey, [1.0; 3]) - 4.54).abs() < 0.01);
}

#[test]
fn the_script_has_at_most_300_lines_and_loads_nothing_of_others() {
    assert!(script().text.lines().count() <= 300);
    for text in [script().text, style().text] {
        assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("//cdn"));
    }
}

#[test]
fn the_name_of_a_file_follows_its_text() {
    let name = &style().name;
    assert!(
        name.starts_with("style.") && name.ends_with(".css") && name.len() == 26,
        "{name}"
    );
    assert_ne!(
        super::Asset::new(("a", "b"), "", "x").name,
        super::Asset::new(("a", "b"), "", "y").name
    );
}
