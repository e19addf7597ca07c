//! Draws the rows that are shares (of raw, in percent) as bars: an SVG from the JSON of `--json`.

use std::fmt::Write;

use serde::Deserialize;

/// The rows as `--json` prints them.
#[derive(Debug, Deserialize)]
struct Row {
    topic: String,
    what: String,
    value: f64,
    unit: String,
    spread: Option<(f64, f64)>,
    goal: Option<String>,
}

/// A row that is drawn.
struct Bar {
    label: String,
    value: f64,
    spread: (f64, f64),
    goal: Option<f64>,
}

const LABELS: f64 = 400.0;
const BARS: f64 = 420.0;
const FIGURES: f64 = 90.0;
const LINE: f64 = 24.0;

/// Returns the chart of these rows.
///
/// # Errors
///
/// When the text is not the JSON of rows, or none of them is a share.
pub(crate) fn svg(json: &str) -> Result<String, String> {
    let rows: Vec<Row> = serde_json::from_str(json).map_err(|e| e.to_string())?;
    let topics = topics(&rows);
    if topics.is_empty() {
        return Err("no row is a share of raw: measure transitions, few or flow".into());
    }
    Ok(draw(&topics))
}

/// The bars of each topic. The label of a share is the row before it that has its own name.
fn topics(rows: &[Row]) -> Vec<(String, Vec<Bar>)> {
    let (mut topics, mut name) = (Vec::<(String, Vec<Bar>)>::new(), "");
    for row in rows {
        if !row.what.starts_with(' ') {
            name = &row.what;
        }
        if row.unit != "%" {
            continue;
        }
        let number = |goal: &String| goal.rsplit(' ').next()?.parse().ok();
        let bar = Bar {
            label: name.trim().to_owned(),
            value: row.value,
            spread: row.spread.unwrap_or((row.value, row.value)),
            goal: row.goal.as_ref().and_then(number),
        };
        match topics.last_mut() {
            Some((topic, bars)) if *topic == row.topic => bars.push(bar),
            _ => topics.push((row.topic.clone(), vec![bar])),
        }
    }
    topics
}

fn draw(topics: &[(String, Vec<Bar>)]) -> String {
    let bars = || topics.iter().flat_map(|(_, bars)| bars);
    let most = bars().map(|bar| bar.spread.1).fold(100.0, f64::max);
    let lines = topics.len() as f64 * 1.5 + bars().count() as f64;
    let (width, height) = (LABELS + BARS + FIGURES, lines * LINE + LINE);
    let x = |value: f64| LABELS + value / most * BARS;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let mut y = LINE;
    for (topic, bars) in topics {
        text(&mut svg, (10.0, y), "start", topic, "bold");
        y += LINE * 0.5;
        for bar in bars {
            let middle = y + LINE / 2.0;
            text(
                &mut svg,
                (LABELS - 8.0, middle + 4.0),
                "end",
                &bar.label,
                "normal",
            );
            let (from, to) = bar.spread;
            let _ = writeln!(
                svg,
                "<rect x=\"{LABELS}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#4a7fb5\"/>",
                y + 4.0,
                x(bar.value) - LABELS,
                LINE - 8.0
            );
            line(&mut svg, (x(from), middle), (x(to), middle), "#1c2f45");
            if let Some(goal) = bar.goal {
                line(
                    &mut svg,
                    (x(goal), y + 1.0),
                    (x(goal), y + LINE - 1.0),
                    "#c0392b",
                );
            }
            let figure = format!("{:.0} %", bar.value);
            text(
                &mut svg,
                (x(to.max(bar.value)) + 6.0, middle + 4.0),
                "start",
                &figure,
                "normal",
            );
            y += LINE;
        }
        y += LINE;
    }
    svg.push_str("</svg>\n");
    svg
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str, weight: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\" fill=\"#1c2f45\">{text}</text>"
    );
}

fn line(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>"
    );
}
