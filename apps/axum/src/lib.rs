//! The application: its routes. It knows of no socket, and its tests call it without one.

use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::routing::{get, post};
use bast_hyper::PeerAddr;
use futures_util::stream;
use serde::Serialize;

/// All routes.
pub fn app() -> Router {
    Router::new()
        .route("/", get(hello).post(hello))
        .route("/sum/{a}/{b}", get(sum))
        .route("/peer", get(peer))
        .route("/echo", post(echo))
        .route("/ticks/{count}", get(ticks))
        .route("/files/{name}", get(file))
}

/// Reads what it is sent, up to axum's limit, before it answers.
async fn hello(_: Bytes) -> &'static str {
    "Hello from a task.\n"
}

#[derive(Serialize)]
struct Sum {
    a: i64,
    b: i64,
    sum: Option<i64>,
}

/// JSON. `null` is the sum of what is too large.
async fn sum(Path((a, b)): Path<(i64, i64)>) -> Json<Sum> {
    Json(Sum { a, b, sum: a.checked_add(b) })
}

/// Who asks.
async fn peer(request: Request) -> String {
    match request.extensions().get::<PeerAddr>() {
        Some(PeerAddr(addr)) => format!("{addr}\n"),
        None => "nobody\n".into(),
    }
}

/// Sends the body back while it comes: it is never in memory as a whole, and a client that does not read what it is
/// sent is not read from.
async fn echo(request: Request) -> Body {
    request.into_body()
}

/// A body that is made while it is sent: a line now, and one each 10 ms.
async fn ticks(Path(count): Path<u32>) -> Body {
    Body::from_stream(stream::unfold(0, move |n| async move {
        if n == count {
            return None;
        }
        if n > 0 {
            bast::future::sleep(Duration::from_millis(10)).await;
        }
        Some((Ok::<_, std::io::Error>(format!("{n}\n")), n + 1))
    }))
}

/// Direct style: what blocks runs on a fiber, and the handler awaits that. Here it reads a file of this program's folder.
async fn file(Path(name): Path<String>) -> Result<String, (StatusCode, String)> {
    // On Windows `\` parts a path too, and `:` names a drive.
    if name.contains(['/', '\\', ':', '\0']) || name.starts_with('.') {
        return Err((StatusCode::BAD_REQUEST, "not a name of a file\n".into()));
    }
    let read = bast::spawn(move || bast::fs::read_to_string(name));
    match read.await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(fault)) => Err((StatusCode::NOT_FOUND, format!("{fault}\n"))),
        // The fiber has panicked: so does the handler, and its connection ends.
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests;
