# The reranker's image; it listens to other machines, and asks them for the key:
#   export RESIFT_API_KEY=rsf_$(openssl rand -hex 32)
#   docker build -t resift . && docker run -p 8080:8080 -e RESIFT_API_KEY -e OPENSEARCH_URL=http://… resift
FROM python:3.12-slim

RUN useradd --uid 1000 --create-home resift && install -d -o resift -g resift /data

COPY . /src
RUN pip install --no-cache-dir -c /src/requirements.lock '/src[fast]' && rm -rf /src

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
