# The reranker's image; it listens to other machines, and asks them for the key:
#   export RESIFT_API_KEY=rsf_$(openssl rand -hex 32)
#   docker build -t resift . && docker run -p 8080:8080 -e RESIFT_API_KEY -e OPENSEARCH_URL=http://… resift

# By digest, which Dependabot moves to the newest build of the tag.
FROM python:3.12-slim@sha256:229a2c5bfa27522db7815ea81f9bed70af17ccb9de9fc7ad142b1877b5830d36

RUN useradd --uid 1000 --create-home resift && install -d -o resift -g resift /data

COPY requirements-serve.lock /src/
RUN pip install --no-cache-dir --require-hashes -r /src/requirements-serve.lock
COPY . /src/
RUN pip install --no-cache-dir --no-deps --no-build-isolation /src && rm -rf /src

USER resift
# Where commands leave what they write if nobody names a place: keys, refused documents, a trained reranker.
WORKDIR /data
# Compiled in the image, so that no new container starts without the compiled loops: by the user who runs them, since
# numba reads only a cache that it may write to.
RUN python -m resift.encoders
# One thread for matrix products: they are small, and the workers are what uses the other processors.
ENV OPENBLAS_NUM_THREADS=1 PYTHONUNBUFFERED=1 RESIFT_STORE=/data/sessions.db
VOLUME /data
EXPOSE 8080

HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]

CMD ["resift", "serve", "--host", "0.0.0.0", "--port", "8080"]
