# One image serves the subscriber and Spark's master and worker, so that Python, Spark and this package
# have the same version everywhere. It is Bookworm because that Debian has Java 17.
FROM python:3.11-slim-bookworm

# Row filters order text by ICU's collations if the publisher has the same version: libicu72 is that of
# PostgreSQL's packages and images for Bookworm.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libicu72 openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/subscriber
COPY pyproject.toml README.md LICENSE ./
COPY subscriber ./subscriber
COPY scenarios ./scenarios
RUN pip install --no-cache-dir ".[mysql,duckdb,http]"

# spark-class is a script of the pyspark wheel. Without SPARK_HOME it looks for Spark beside itself.
ENV SPARK_HOME=/usr/local/lib/python3.11/site-packages/pyspark

RUN useradd --uid 10001 --create-home subscriber \
    && install -d -o subscriber -g subscriber /var/lib/subscriber/journal
USER subscriber
WORKDIR /home/subscriber
CMD ["subscriber", "--help"]
