//! The style sheet and the script of the pages. Their names have the hash of their text, so that browsers keep them.

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use sha2::{Digest, Sha256};

use crate::app::App;

/// A file of the pages.
pub(super) struct Asset {
    pub(super) name: String,
    media: &'static str,
    text: &'static str,
}

impl Asset {
    fn new((stem, ending): (&str, &str), media: &'static str, text: &'static str) -> Self {
        let hash = Sha256::digest(text.as_bytes());
        let hash: String = hash.iter().take(8).map(|b| format!("{b:02x}")).collect();
        let name = format!("{stem}.{hash}.{ending}");
        Self { name, media, text }
    }
}

static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("assets/style.css");
    Asset::new(("style", "css"), "text/css; charset=utf-8", text)
});
static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("assets/script.js");
    Asset::new(("script", "js"), "text/javascript; charset=utf-8", text)
});
static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("assets/icon.svg");
    Asset::new(("icon", "svg"), "image/svg+xml", text)
});

pub(super) fn style() -> &'static Asset {
    &STYLE
}

pub(super) fn script() -> &'static Asset {
    &SCRIPT
}

pub(super) fn icon() -> &'static Asset {
    &ICON
}

/// Returns the routes of the files. They say nothing of the namespace, so they need no caller.
pub(crate) fn router() -> Router<Arc<App>> {
    Router::new().route("/assets/{name}", get(show))
}

async fn show(Path(name): Path<String>) -> Response {
    let found = [style(), script(), icon()];
    let Some(asset) = found.into_iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, asset.media),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ];
    (headers, asset.text).into_response()
}

#[cfg(test)]
mod tests;
