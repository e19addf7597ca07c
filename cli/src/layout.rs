//! Fitting a table to a narrow terminal.
//!
//! `comfy-table` draws the table. Its own arrangement breaks cells into lines and narrows every column. A list has one line
//! for each task, and first leaves out its less important columns, so the columns are fitted here.

use std::collections::HashSet;

use comfy_table::Cell;
use unicode_width::UnicodeWidthStr;

/// The space between two columns.
pub(crate) const GAP: usize = 2;
/// The minimum width of a shortened column; a narrower column keeps its own width.
const LEAST: usize = 12;

/// Fits a table to a width: leaves out the columns of `less`, in order, until the others fit with the
/// widest of them shortened, then shortens that one. The first column is shortened last. Returns the
/// remaining header.
pub(crate) fn fit<'a>(
    width: usize,
    header: &[&'a str],
    less: &[&str],
    rows: &mut [Vec<Cell>],
) -> Vec<&'a str> {
    let mut header = header.to_vec();
    let mut less = less.iter();
    loop {
        let widths = widths(&header, rows);
        if at_least(&widths) <= width {
            break;
        }
        let Some(name) = less.next() else { break };
        if let Some(at) = header.iter().position(|column| column == name) {
            header.remove(at);
            rows.iter_mut().for_each(|row| {
                row.remove(at);
            });
        }
    }
    // The widest one, and if that is not enough, the others in turn.
    for _ in 0..header.len() {
        let widths = widths(&header, rows);
        let over = total(&widths).saturating_sub(width);
        let Some(at) = widest(&widths).filter(|_| over > 0) else {
            break;
        };
        let most = widths[at].saturating_sub(over).max(LEAST.min(widths[at]));
        match at {
            0 => shorten_apart(rows, most),
            _ => rows.iter_mut().for_each(|row| shorten(&mut row[at], most)),
        }
    }
    header
}

/// Returns the width of each column.
fn widths(header: &[&str], rows: &[Vec<Cell>]) -> Vec<usize> {
    let of = |at: usize| {
        let cells = rows.iter().map(|row| row[at].content().width());
        cells.max().unwrap_or(0).max(header[at].width())
    };
    (0..header.len()).map(of).collect()
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Returns the column to shorten: the widest except the first, if shortening it helps.
fn widest(widths: &[usize]) -> Option<usize> {
    let others = (1..widths.len()).filter(|at| widths[*at] > LEAST);
    let first = (!widths.is_empty()).then_some(0);
    others.max_by_key(|at| widths[*at]).or(first)
}

/// Returns the total width with the widest column shortened as far as possible.
fn at_least(widths: &[usize]) -> usize {
    let others = (1..widths.len()).filter(|at| widths[*at] > LEAST);
    let gained = others.map(|at| widths[at] - LEAST).max().unwrap_or(0);
    total(widths) - gained
}

/// Cuts the cells of the first column to this width. They name the rows, so they keep their beginnings and their ends, and
/// stay as they are if two of them would look alike.
fn shorten_apart(rows: &mut [Vec<Cell>], most: usize) {
    let texts: Vec<String> = rows.iter().map(|row| row[0].content()).collect();
    let short: Vec<String> = texts
        .iter()
        .map(|text| without_middle(text, most))
        .collect();
    let number = |all: &[String]| all.iter().collect::<HashSet<_>>().len();
    if number(&texts) == number(&short) {
        for (row, (text, short)) in rows.iter_mut().zip(texts.iter().zip(short)) {
            if *text != short {
                row[0] = Cell::new(short);
            }
        }
    }
}

/// Returns the text in this width: its beginning and its end, with an ellipsis between them.
fn without_middle(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(1);
    let begin = within(text.chars(), room / 2);
    let end = within(text.chars().rev(), room - room / 2);
    let end: String = end.chars().rev().collect();
    format!("{begin}…{end}")
}

/// Returns the first characters that fit in this width.
fn within(chars: impl Iterator<Item = char>, most: usize) -> String {
    let mut fits = String::new();
    for c in chars {
        fits.push(c);
        if fits.width() > most {
            fits.pop();
            break;
        }
    }
    fits
}

/// Cuts a cell to this width, with an ellipsis.
fn shorten(cell: &mut Cell, most: usize) {
    let text = cell.content();
    if text.width() <= most {
        return;
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if short.width() >= most {
            short.pop();
            break;
        }
    }
    short.push('…');
    *cell = Cell::new(short);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [&str; 5] = ["ID", "KIND", "STATE", "NODE", "INFO"];
    const LESS: [&str; 2] = ["NODE", "KIND"];

    fn rows(info: &str) -> Vec<Vec<Cell>> {
        let id = "01a20373-cf58-7169-bb13-3e732d36e18c";
        let row = [id, "exec", "completed", "node-14134-1f7bb6", info];
        vec![row.map(Cell::new).to_vec()]
    }

    fn texts(rows: &[Vec<Cell>]) -> Vec<String> {
        rows[0].iter().map(Cell::content).collect()
    }

    #[test]
    fn a_wide_terminal_leaves_the_table_alone() {
        let mut rows = rows("no disk");
        assert_eq!(fit(200, &HEADER, &LESS, &mut rows), HEADER);
        assert_eq!(texts(&rows)[4], "no disk");
    }

    #[test]
    fn the_widest_column_is_shortened_before_another_is_left_out() {
        let mut rows = rows(&"x".repeat(60));
        assert_eq!(fit(100, &HEADER, &LESS, &mut rows), HEADER);
        assert_eq!(texts(&rows)[4], format!("{}…", "x".repeat(25)));
    }

    #[test]
    fn less_important_columns_go_first() {
        let mut left = rows(&"x".repeat(60));
        assert_eq!(
            fit(80, &HEADER, &LESS, &mut left),
            ["ID", "KIND", "STATE", "INFO"]
        );
        let mut left = rows("ü");
        let header = fit(60, &HEADER, &LESS, &mut left);
        assert_eq!(header, ["ID", "KIND", "STATE", "INFO"]);
        let mut left = rows(&"日本".repeat(30));
        let header = fit(60, &HEADER, &LESS, &mut left);
        assert_eq!(header, ["ID", "STATE", "INFO"]);
        assert!(total(&widths(&header, &left)) <= 60, "{left:?}");
        assert!(texts(&left)[2].ends_with('…'));
    }

    #[test]
    fn the_first_column_is_shortened_last() {
        let mut left = rows(&"x".repeat(60));
        let header = fit(40, &HEADER, &LESS, &mut left);
        assert_eq!(header, ["ID", "STATE", "INFO"]);
        assert!(total(&widths(&header, &left)) <= 40, "{left:?}");
        assert!(texts(&left)[0].starts_with("01a20"));
    }

    /// Regression: ids that begin alike, as those of one moment do, looked the same.
    #[test]
    fn shortened_ids_stay_different() {
        let table = |ids: [&str; 2]| {
            let row = |id| [id, "exec", "completed", "n", "x"].map(Cell::new).to_vec();
            let mut left = ids.map(row).to_vec();
            fit(40, &HEADER, &LESS, &mut left);
            left.iter().map(|row| row[0].content()).collect::<Vec<_>>()
        };
        let short = table([
            "01a20373-cf58-7169-bb13-3e732d36e18c",
            "01a20373-cf58-7169-bb13-3e732d36e18d",
        ]);
        assert!(
            short[0].ends_with("e18c") && short[1].ends_with("e18d"),
            "{short:?}"
        );
        assert!(short[0].starts_with("01a20") && short[0].contains('…'));
        let alike = [
            "begin-0000000000-1-0000000000-end",
            "begin-0000000000-2-0000000000-end",
        ];
        assert_eq!(table(alike), alike);
    }
}
