//! The one service behind all servers of the tests.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

/// What an answer consists of.
pub(crate) enum Content {
    /// One piece of known length.
    Whole(Option<Bytes>),
    /// Pieces, one with each poll, and no length.
    Pieces(std::slice::Iter<'static, &'static str>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Content::Whole(bytes) => bytes.take(),
            Content::Pieces(pieces) => {
                pieces.next().map(|text| Bytes::from_static(text.as_bytes()))
            }
        };
        Poll::Ready(piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}

fn whole(status: StatusCode, bytes: impl Into<Bytes>) -> Response<Content> {
    let mut response = Response::new(Content::Whole(Some(bytes.into())));
    *response.status_mut() = status;
    response
}

/// `/` says hello, `/echo` what it is told, `/stream` comes in pieces, `/none` and `/same` have no content, `/refuse`
/// does not read; anything else gives its path.
pub(crate) async fn answer<B: Body>(request: Request<B>) -> Result<Response<Content>, Infallible> {
    let (head, body) = request.into_parts();
    if !matches!(head.method, Method::GET | Method::HEAD | Method::POST | Method::OPTIONS) {
        return Ok(whole(StatusCode::NOT_IMPLEMENTED, ""));
    }
    Ok(match head.uri.path() {
        "/" => whole(StatusCode::OK, "hello"),
        "/probe" => whole(StatusCode::OK, "probe"),
        "/echo" => echo(body).await,
        "/stream" => Response::new(Content::Pieces(["one ", "two ", "three "].iter())),
        "/none" | "*" => whole(StatusCode::NO_CONTENT, ""),
        "/same" => whole(StatusCode::NOT_MODIFIED, ""),
        "/refuse" => whole(StatusCode::PAYLOAD_TOO_LARGE, ""),
        path => whole(StatusCode::OK, path.to_owned()),
    })
}

async fn echo<B: Body>(body: B) -> Response<Content> {
    let Ok(body) = body.collect().await else {
        return whole(StatusCode::BAD_REQUEST, "bad body");
    };
    let trailers = body.trailers().map_or(0, http::HeaderMap::len);
    let mut response = whole(StatusCode::OK, body.to_bytes());
    response.headers_mut().insert("x-trailers", trailers.into());
    response
}
