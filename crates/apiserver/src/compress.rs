//! gzip for large answers to clients that can read it, as upstream: from 128 KiB on, at the quickest level.
//!
//! The answer is compressed while it is sent, a piece at a time, so that a list is never held in both forms.
//! Watches are not compressed: an event must not wait in a compressor for the next one.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::body::{Body, BoxError};

/// As upstream: smaller answers are sent faster than compressed.
const THRESHOLD: u64 = 128 << 10;
/// Compressed at once, between two chances for others to run: a fraction of a millisecond.
const STEP: usize = 64 << 10;

/// Whether the client reads gzip.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let given = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let quality = parts.find_map(|part| part.strip_prefix("q=")).map(str::parse::<f32>);
        named && !matches!(quality, Some(Ok(0.0) | Err(_)))
    })
}

/// The answer, compressed if it is worth it and the client can read it.
pub fn response(mut response: Response<Body>, gzip: bool) -> Response<Body> {
    // Streams without an end in sight, such as watches, have no lower bound either.
    if response.body().size_hint().lower() < THRESHOLD
        || response.headers().contains_key(header::CONTENT_ENCODING)
    {
        return response;
    }
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if !gzip {
        return response;
    }
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.remove(header::CONTENT_LENGTH);
    response.map(|plain| Gzip::new(plain).boxed_unsync())
}

/// A body on its way through the compressor.
struct Gzip {
    plain: Body,
    /// What came from the body and is not compressed yet.
    rest: Bytes,
    /// None once the end has been written.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    fn new(plain: Body) -> Self {
        Gzip { plain, rest: Bytes::new(), encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }

    /// The next compressed bytes; none when all are out.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, BoxError>> {
        while let Some(encoder) = &mut self.encoder {
            if !self.rest.is_empty() {
                let piece = self.rest.split_to(self.rest.len().min(STEP));
                encoder.write_all(&piece)?;
                if !encoder.get_ref().is_empty() {
                    return Poll::Ready(Ok(Some(std::mem::take(encoder.get_mut()))));
                }
                continue;
            }
            match ready!(Pin::new(&mut self.plain).poll_frame(cx)) {
                Some(frame) => {
                    // Nobody here sends trailers.
                    if let Ok(data) = frame?.into_data() {
                        self.rest = data;
                    }
                }
                None => {
                    let last = self.encoder.take().map(GzEncoder::finish);
                    return Poll::Ready(last.transpose().map_err(io::Error::into));
                }
            }
        }
        Poll::Ready(Ok(None))
    }
}

impl http_body::Body for Gzip {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let chunk = ready!(self.poll_chunk(cx));
        Poll::Ready(chunk.map(|chunk| chunk.map(|bytes| Frame::data(Bytes::from(bytes)))).transpose())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::body;

    #[test]
    fn who_reads_gzip() {
        fn check(given: &str, expected: bool) {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, given.parse().unwrap());
            assert_eq!(accepts_gzip(&headers), expected, "{given}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
        check("gzip", true);
        check("deflate, gzip;q=0.5", true);
        check("br,GZIP ", true);
        check("gzip;q=0", false);
        check("gzip; q=0.000", false);
        check("gzip;q=x", false);
        check("identity", false);
        check("*", false);
        check("xgzip", false);
    }

    async fn sent(bytes: Vec<u8>, gzip: bool) -> (HeaderMap, Vec<u8>) {
        let (head, body) = response(body::response(200, body::JSON, bytes), gzip).into_parts();
        (head.headers, body.collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn large_answers_go_there_and_back() {
        // Runs and noise, over many steps.
        let plain: Vec<u8> =
            (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> (i >> 18)) as u8).collect();
        let (headers, sent_bytes) = sent(plain.clone(), true).await;
        assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
        assert_eq!(headers[header::VARY], "Accept-Encoding");
        assert!(sent_bytes.len() < plain.len());
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(sent_bytes.as_slice()).read_to_end(&mut back).unwrap();
        assert!(back == plain);

        let (headers, sent_bytes) = sent(plain.clone(), false).await;
        assert!(!headers.contains_key(header::CONTENT_ENCODING) && sent_bytes == plain);
        assert_eq!(headers[header::VARY], "Accept-Encoding");
    }

    #[tokio::test]
    async fn small_answers_and_streams_are_left_alone() {
        let (headers, bytes) = sent(vec![b'a'; THRESHOLD as usize - 1], true).await;
        assert!(!headers.contains_key(header::CONTENT_ENCODING) && bytes.len() == THRESHOLD as usize - 1);
        let stream = body::stream(futures::stream::repeat(Bytes::from(vec![b'a'; 1 << 20])));
        let streamed = response(Response::new(stream), true);
        assert!(!streamed.headers().contains_key(header::CONTENT_ENCODING));
    }
}
