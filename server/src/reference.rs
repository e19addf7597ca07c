//! The reference of the requests, as a table in Markdown.

use std::fmt::Write as _;

use crate::routes::requests;

/// Returns a table of every request, as Markdown: a part of docs/operate/server.md.
pub fn reference() -> String {
    let mut text = String::from("| request | role | what it does |\n|---|---|---|\n");
    for request in requests() {
        for method in request.methods {
            let names = method.parameters.iter().map(|parameter| parameter.name);
            let names: Vec<&str> = names.collect();
            let parameters = match names.is_empty() {
                true => String::new(),
                false => format!(" Parameters: {}.", names.join(", ")),
            };
            // Writing to a text does not fail.
            let _ = writeln!(
                text,
                "| `{} {}` | {} | {}{parameters} |",
                method.method, request.path, method.role, method.about
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_has_the_reference() -> Result<(), std::io::Error> {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operate/server.md");
        let page = std::fs::read_to_string(page)?;
        let reference = super::reference();
        assert!(
            page.contains(&reference),
            "docs/operate/server.md lacks:\n{reference}"
        );
        Ok(())
    }
}
